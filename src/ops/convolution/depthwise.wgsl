// Convolutions whose filters see one channel each.
// Bindings: x [planes of the input], weight [channels, taps], result, and the bias where there is one.

//! module: depthwise_params
struct Params {
  threads: u32,
  channels: u32,       // of the result
  multiplier: u32,     // so many of them share one of the input
  size: vec2<u32>,     // width and height of the result
  source: vec2<u32>,   // of the input
  kernel: vec2<u32>,
  stride: vec2<i32>,
  padding: vec2<i32>,
  dilation: vec2<i32>,
  column_quads: u32,   // of a row of the result
  rows: u32,           // of the result that a thread of depthwise_slide makes
  row_blocks: u32,     // so many threads make a column
  low: f32,
  high: f32,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

fn first_of(plane: u32) -> u32 {
  return plane / params.multiplier * params.source.x * params.source.y;
}

// Four elements of the input, and zero for those beside the picture. All are loaded, wherever they lie: on CPU adapters
// a branch costs more than a load.
fn x_at(i: vec4<u32>, is_there: vec4<bool>) -> vec4<f32> {
  return select(vec4<f32>(), vec4<f32>(load_x(i.x), load_x(i.y), load_x(i.z), load_x(i.w)), is_there);
}

//! module: depthwise_bias
fn bias_of(channel: u32) -> f32 {
  return load_bias(channel);
}

//! module: depthwise_no_bias
fn bias_of(channel: u32) -> f32 {
  return 0.0;
}

// How rows are read and written.
//! module: depthwise_rows
//! uses: depthwise_params
//! slots: bias, activation, store

// As many columns of the input as there are, so none of a row beside the picture.
fn width_at(row: i32) -> u32 {
  return select(0u, params.source.x, u32(row) < params.source.y);
}
fn index_at(first: u32, row: i32, column: i32) -> u32 {
  return first + u32(row * i32(params.source.x) + column);
}

fn four_at(first: u32, row: i32, column: i32, step: u32) -> vec4<f32> {
  let steps = vec4<u32>(0u, 1u, 2u, 3u) * step;
  return x_at(index_at(first, row, column) + steps, u32(column) + steps < vec4<u32>(width_at(row)));
}

fn write(plane: u32, row: u32, column: u32, v: vec4<f32>) {
  store(0u, (plane * params.size.y + row) * params.size.x + column, activation(v + bias_of(plane % params.channels)),
        params.size.x - column);
}

// A thread makes four neighbours of a row, by any filter.
//! module: depthwise_row
//! uses: depthwise_rows

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  let column = i % params.column_quads * 4u;
  let rest = i / params.column_quads;
  let plane = rest / params.size.y;
  let row = rest - plane * params.size.y;
  let first = first_of(plane);
  var tap = plane % params.channels * params.kernel.x * params.kernel.y;
  var sum = vec4<f32>();
  for (var ky = 0u; ky < params.kernel.y; ky++) {
    let y = i32(row) * params.stride.y + i32(ky) * params.dilation.y - params.padding.y;
    for (var kx = 0u; kx < params.kernel.x; kx++) {
      let x = i32(column) * params.stride.x + i32(kx) * params.dilation.x - params.padding.x;
      sum += load_weight(tap) * four_at(first, y, x, u32(params.stride.x));
      tap++;
    }
  }
  write(plane, row, column, sum);
}

// A thread makes four neighbours of the result, whatever rows they belong to.
//! module: depthwise_flat
//! uses: depthwise_params
//! slots: bias, activation

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  let at = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
  let line = at / params.size.x;
  let plane = line / params.size.y;
  let first = plane / params.multiplier * params.source.x * params.source.y;
  let left = vec4<i32>(at % params.size.x) * params.stride.x - params.padding.x;
  let top = vec4<i32>(line % params.size.y) * params.stride.y - params.padding.y;
  let channel = plane % params.channels;
  var tap = channel * params.kernel.x * params.kernel.y;
  var sums = vec4<f32>(bias_of(channel.x), bias_of(channel.y), bias_of(channel.z), bias_of(channel.w));
  for (var ky = 0; ky < i32(params.kernel.y); ky++) {
    let y = vec4<u32>(top + ky * params.dilation.y);
    for (var kx = 0; kx < i32(params.kernel.x); kx++) {
      let x = vec4<u32>(left + kx * params.dilation.x);
      let is_there = (y < vec4<u32>(params.source.y)) & (x < vec4<u32>(params.source.x));
      sums += vec4<f32>(load_weight(tap.x), load_weight(tap.y), load_weight(tap.z), load_weight(tap.w)) *
              x_at(first + y * params.source.x + x, is_there);
      tap += 1u;
    }
  }
  store4_result(i, activation(sums));
}
