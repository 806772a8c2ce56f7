// Weights [rows, width] to nibbles [rows, (width + 1) / 2] by given scales: one thread makes four neighbouring bytes.
// Bindings: source, scales [groups, pitch], result.

struct Params {
  count: u32,  // bytes
  width: u32,
  group_size: u32,
  pitch: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

// Steps of no size have the nibble of zero; there is nothing past a row's end.
fn nibble(row: u32, column: u32) -> i32 {
  if (column >= params.width) {
    return 0;
  }
  let scale = load_scales(column / params.group_size * params.pitch + row);
  let steps = round(load_source(row * params.width + column) / select(scale, 1.0, scale == 0.0));
  return i32(clamp(select(steps, 0.0, scale == 0.0), -8.0, 7.0)) + 8;
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let quad = thread_index(id, groups);
  if (4u * quad >= params.count) {
    return;
  }
  let bytes = (params.width + 1u) / 2u;
  var result = vec4<i32>();
  for (var lane = 0u; lane < 4u; lane++) {
    let byte = min(4u * quad + lane, params.count - 1u);
    let row = byte / bytes;
    let column = 2u * (byte - row * bytes);
    result[lane] = nibble(row, column) | (nibble(row, column + 1u) << 4u);
  }
  store4_result(quad, result);
}
