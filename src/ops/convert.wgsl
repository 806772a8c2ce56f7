// Element types: one thread converts four elements.
// Bindings: source, result. Line: change().

struct Params {
  quads: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    store4_result(i, change(load4_source(i)));
  }
}
