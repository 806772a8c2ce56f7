// One thread copies one vec4 of words.
// Bindings: source, target_ (words4).
//! proven: a thread has one place on both sides

struct Params {
  count: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.count) {
    target_[i] = source[i];
  }
}
