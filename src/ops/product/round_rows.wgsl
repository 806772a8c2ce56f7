// Rounds each row of x to 8-bit steps of its own scale and zero point. One thread makes four neighbours.
// Bindings: x, scale and zero (by row), result.

struct Params {
  count: u32,
  depth: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (4u * quad >= params.count) {
    return;
  }
  let x = load4_x(quad);
  var rounded = vec4<f32>();
  for (var lane = 0u; lane < 4u; lane++) {
    let row = min(4u * quad + lane, params.count - 1u) / params.depth;
    let zero = f32(load_zero(row));
    rounded[lane] = (clamp(round(x[lane] / load_scale(row)) + zero, -128.0, 127.0) - zero) * load_scale(row);
  }
  store4_result(quad, rounded);
}
