// The sum of two tensors of one shape: one thread adds four elements.
// Bindings: a, b, sum.
//! proven: a thread has one place

struct Params {
  quads: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    store4_sum(i, load4_a(i) + load4_b(i));
  }
}
