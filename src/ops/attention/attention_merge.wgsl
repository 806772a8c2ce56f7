// Puts the parts of attention together: one thread makes four neighbouring elements of the result.
// Bindings: partial, result.
//! proven: rows have as many parts as the planner says
//
// On a discrete GPU: it reads what the parts wrote, (size + 4) * 4 bytes per row and part, from cache, by neighbouring
// lanes; no barrier.

struct Params {
  quads: u32,
  count: u32,  // elements of the result
  size: u32,   // elements per row
  parts: u32,
  keys: u32,
  row_quads: u32,  // vec4s per row of a part
}
@group(0) @binding(0) var<uniform> params: Params;

override ALIGNED: u32 = 0u;  // 1: rows are whole vec4s

// Quad j of a row: the parts' weighted values, each scaled from its own largest score to the largest of all.
fn merged(row: u32, j: u32) -> vec4<f32> {
  let first = row * params.parts * (params.row_quads + 1u);
  var largest = load4_partial(first).x;
  for (var part = 1u; part < params.parts; part++) {
    largest = max(largest, load4_partial(first + part * (params.row_quads + 1u)).x);
  }
  var sum = 0.0;
  var values = vec4<f32>(0.0);
  for (var part = 0u; part < params.parts; part++) {
    let at = first + part * (params.row_quads + 1u);
    let head = load4_partial(at);
    let weight = exp(head.x - largest);
    sum += weight * head.y;
    values += weight * load4_partial(at + 1u + j);
  }
  // No keys at all give 0; keys that are all masked by infinity give 0 / 0.
  return values * select(1.0 / sum, 0.0, params.keys == 0u);
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (quad >= params.quads) {
    return;
  }
  if (ALIGNED == 1u) {
    let row = 4u * quad / params.size;
    store4_result(quad, merged(row, quad - row * (params.size / 4u)));
    return;
  }
  var values = vec4<f32>(0.0);
  for (var lane = 0u; lane < 4u; lane++) {
    let element = min(4u * quad + lane, params.count - 1u);
    let row = element / params.size;
    let column = element - row * params.size;
    values[lane] = merged(row, column / 4u)[column % 4u];
  }
  store4_result(quad, values);
}
