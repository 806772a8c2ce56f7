// One of two operands, element by element: one thread makes four neighbouring elements.
// Bindings: a, b, c (the condition), result.
//! proven: places are those of coordinates
//! uses: broadcast
//! slots: type

fn chosen_at(quad: u32, p: Places) -> vec4<bool> {
  var c = vec4<i32>();
  if (C_ONE == 1u) {
    c = vec4<i32>(load_c(0u));
  } else if (READING == 0u) {
    c = load4_c(quad);
  } else if (READING == 2u) {
    c = vec4<i32>(load_c(p.c.x), load_c(p.c.y), load_c(p.c.z), load_c(p.c.w));
  } else if (p.c.w == 1u) {
    c = load4_c(p.c.x >> 2u);
  } else {
    c = vec4<i32>(load_c(p.c.x));
  }
  return c != vec4<i32>();
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i < params.quads) {
    let p = places(i);
    store4_result(i, select(b_at(i, p), a_at(i, p), chosen_at(i, p)));
  }
}
