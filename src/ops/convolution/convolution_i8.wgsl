// A convolution of bytes: one thread makes four neighbours of the result, whose sums are exact. Places that a filter
// touches beside the picture, or between its pixels where it is transposed, count as zero.
// Bindings: x, weight, scales, result, and the bias where there is one.
//! slots: bias

struct Params {
  quads: u32,
  channels: u32,        // of the input, per group
  groups: u32,
  columns: u32,         // of the result, in all
  size: vec2<u32>,      // width and height of the result
  source: vec2<i32>,    // of the input
  kernel: vec2<u32>,
  step: vec2<i32>,      // from a place of the result to the next, in steps between pixels
  tap: vec2<i32>,       // the same from a tap to the next
  shift: vec2<i32>,     // where the first tap of the first place is
  spread: vec2<i32>,    // steps between pixels
  column_stride: u32,   // of the weight
  tap_stride: u32,
  zero: i32,            // of x
  scale: f32,           // of x
  lowest: f32,          // 0 for a relu
  inverse: f32,         // of the result
  result_zero: f32,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.quads) {
    return;
  }
  let at = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
  let line = at / params.size.x;
  let place_x = vec4<i32>(at % params.size.x) * params.step.x + params.shift.x;
  let place_y = vec4<i32>(line % params.size.y) * params.step.y + params.shift.y;
  let plane = line / params.size.y;
  let column = plane % params.columns;
  let group = column / (params.columns / params.groups);
  let size = u32(params.source.x * params.source.y);
  let first = (plane / params.columns * params.groups + group) * params.channels * size;
  var sums = vec4<i32>();
  for (var ky = 0u; ky < params.kernel.y; ky++) {
    let y = place_y + i32(ky) * params.tap.y;
    let row = y / params.spread.y;
    let in_rows = (y >= vec4<i32>()) & (row * params.spread.y == y) & (row < vec4<i32>(params.source.y));
    for (var kx = 0u; kx < params.kernel.x; kx++) {
      let x = place_x + i32(kx) * params.tap.x;
      let pixel = x / params.spread.x;
      let is_there = in_rows & (x >= vec4<i32>()) & (pixel * params.spread.x == x) &
                     (pixel < vec4<i32>(params.source.x));
      var source = first + select(vec4<u32>(), vec4<u32>(row * params.source.x + pixel), is_there);
      var w = column * params.column_stride + (ky * params.kernel.x + kx) * params.tap_stride;
      if (any(is_there)) {
        for (var c = 0u; c < params.channels; c++) {
          let bytes = vec4<i32>(load_x(source.x), load_x(source.y), load_x(source.z), load_x(source.w)) - params.zero;
          let weights = vec4<i32>(load_weight(w.x), load_weight(w.y), load_weight(w.z), load_weight(w.w));
          sums += select(vec4<i32>(), bytes, is_there) * weights;
          source += size;
          w += 1u;
        }
      }
    }
  }
  let scales = vec4<f32>(load_scales(column.x), load_scales(column.y), load_scales(column.z), load_scales(column.w));
  let bias = vec4<f32>(bias_of(column.x), bias_of(column.y), bias_of(column.z), bias_of(column.w));
  let v = max(vec4<f32>(sums) * (params.scale * scales) + bias, vec4<f32>(params.lowest));
  store4_result(i, vec4<i32>(clamp(round(v * params.inverse) + params.result_zero, vec4<f32>(-128.0), vec4<f32>(127.0))));
}
