// A picture [batches, channels, height, width] as [batches, height, width, channels], for products with filters: with
// zeros round it, between its pixels where a convolution is transposed, and for channels up to a multiple of four. So a
// filter's taps read whole vec4s and need no check. One thread makes four channels of one pixel; neighbouring threads
// read neighbouring pixels.
// Bindings: source, result.
//! slots: type

struct Params {
  quads: u32,
  width: u32,         // of the result
  height: u32,
  channels: u32,
  channel_quads: u32,
  source: vec2<i32>,   // width and height
  padding: vec2<i32>,  // before the first pixel; negative where pixels are cropped
  step: vec2<i32>,     // every step-th pixel is taken
  spread: vec2<i32>,   // so far apart are pixels, with zeros between them
  first: u32,         // quad of the result's buffer
  fill: f32,          // what zero is
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
  let at = vec2<i32>(i32(column), i32(row)) * params.step - params.padding;
  let pixel = at / params.spread;
  var v = vec4<T>(T(params.fill));
  if (all(at >= vec2<i32>()) && all(pixel * params.spread == at) && all(pixel < params.source)) {
    let size = u32(params.source.x * params.source.y);
    let first = (batch * params.channels + 4u * quad) * size + u32(pixel.y * params.source.x + pixel.x);
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
  store4_result(params.first + ((batch * params.height + row) * params.width + column) * params.channel_quads + quad, v);
}
