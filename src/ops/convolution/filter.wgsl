// A filter's weights as the rows of a product: [columns, taps, channels up to a multiple of four]. One thread makes four
// channels. Weights lie as [columns, channels, taps], or, where a convolution is transposed, as [groups, channels,
// columns of a group, taps], and its taps are turned round.
// Bindings: source, result.

struct Params {
  quads: u32,
  taps: u32,
  channels: u32,
  channel_quads: u32,
  columns: u32,         // of a group
  group_stride: u32,
  column_stride: u32,
  channel_stride: u32,
  is_turned: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let channel = i % params.channel_quads * 4u;
  let rest = i / params.channel_quads;
  let column = rest / params.taps;
  var tap = rest % params.taps;
  if (params.is_turned == 1u) {
    tap = params.taps - 1u - tap;
  }
  let first = column / params.columns * params.group_stride + column % params.columns * params.column_stride + tap;
  var v = vec4<f32>();
  for (var lane = 0u; lane < 4u; lane++) {
    if (channel + lane < params.channels) {
      v[lane] = load_source(first + (channel + lane) * params.channel_stride);
    }
  }
  store4_result(i, v);
}
