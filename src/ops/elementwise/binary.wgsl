// Elementwise on two operands: one thread makes four neighbouring elements.
// Bindings: a, b, result.
//! proven: places are those of coordinates
//! uses: broadcast
//! slots: type, functions?
//! expression: apply(a: vec4<T>, b: vec4<T>) -> vec4<R>

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    let p = places(i);
    store4_result(i, apply(a_at(i, p), b_at(i, p)));
  }
}
