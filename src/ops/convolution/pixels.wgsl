// A picture [batches, channels, height, width] as [batches, height, width, channels], for products with filters: with
// zeros round it, between its pixels where a convolution is transposed, and for channels up to a multiple of four. So a
// filter's taps read whole vec4s and need no check. One thread makes four channels of one pixel; neighbouring threads
// read neighbouring pixels.
// Bindings: source, result.

struct Params {
  quads: u32,
  width: u32,         // of the result
  height: u32,
  channels: u32,
  channel_quads: u32,
  source_width: u32,
  source_height: u32,
  padding_x: i32,     // before the first pixel; negative where pixels are cropped
  padding_y: i32,
  step_x: i32,        // every step-th pixel is taken
  step_y: i32,
  spread_x: i32,      // so far apart are pixels, with zeros between them
  spread_y: i32,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let line = i / params.width;
  let column = i - line * params.width;
  let plane = line / params.height;
  let row = line - plane * params.height;
  let batch = plane / params.channel_quads;
  let quad = plane - batch * params.channel_quads;
  let at = vec2<i32>(i32(column) * params.step_x - params.padding_x, i32(row) * params.step_y - params.padding_y);
  let spread = vec2<i32>(params.spread_x, params.spread_y);
  let pixel = at / spread;
  var v = vec4<f32>();
  if (all(at >= vec2<i32>()) && all(pixel * spread == at) &&
      all(pixel < vec2<i32>(i32(params.source_width), i32(params.source_height)))) {
    let size = params.source_width * params.source_height;
    let first = (batch * params.channels + 4u * quad) * size + u32(pixel.y) * params.source_width + u32(pixel.x);
    let count = params.channels - 4u * quad;
    v.x = load_source(first);
    if (count > 1u) {
      v.y = load_source(first + size);
    }
    if (count > 2u) {
      v.z = load_source(first + 2u * size);
    }
    if (count > 3u) {
      v.w = load_source(first + 3u * size);
    }
  }
  store4_result(((batch * params.height + row) * params.width + column) * params.channel_quads + quad, v);
}
