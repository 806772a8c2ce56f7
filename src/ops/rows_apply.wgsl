// Second half of an op along lines: one thread makes four neighbouring elements, of one line where lines are
// whole vec4s, else perhaps of four.
// Bindings: source, result, perhaps weight and bias, states [lines, parts]. Lines: what a Fold and a RowsOp give.

struct Params {
  lines: u32,
  width: u32,
  parts: u32,
  kept_rank: u32,
  folded_rank: u32,
  neighbours: u32,
  scalar: f32,
  identity: u32,
  inner: u32,
  merged: u32,
  in_quads: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  let count = params.lines * params.width;
  if (quad >= (count + 3u) / 4u) {
    return;
  }
  if (params.in_quads == 1u) {
    let per_line = params.width / 4u;
    let line = quad / per_line;
    store4_result(quad, apply4(load4_source(quad), done(state_at(line * params.parts)), quad - line * per_line));
    return;
  }
  var values: vec4<f32>;
  for (var lane = 0u; lane < 4u; lane++) {
    let element = min(4u * quad + lane, count - 1u);
    let outside = element / params.inner;
    let line = outside / params.width * params.inner + element % params.inner;
    values[lane] = apply(load_source(element), done(state_at(line * params.parts)), outside % params.width);
  }
  store4_result(quad, values);
}
