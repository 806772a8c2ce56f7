// Elementwise on one operand: one thread makes four neighbouring elements.
// Bindings: source, result. Lines: T (the compute type), finish() and apply().

struct Params {
  quads: u32,
  x: f32,
  y: f32,
  i: i32,
  j: i32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    let v = vec4<T>(load4_source(i));
    store4_result(i, finish(v, apply(v)));
  }
}
