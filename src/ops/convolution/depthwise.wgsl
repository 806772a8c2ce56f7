// Convolutions whose filters see one channel each.
// Bindings: x [planes of the input], weight [channels, taps], result, and the bias where there is one.

//! module: depthwise_params
struct Params {
  threads: u32,
  channels: u32,       // of the result
  multiplier: u32,     // so many of them share one of the input
  width: u32,          // of the result
  height: u32,
  source_width: u32,
  source_height: u32,
  kernel_x: u32,
  kernel_y: u32,
  stride_x: i32,
  stride_y: i32,
  padding_x: i32,
  padding_y: i32,
  dilation_x: i32,
  dilation_y: i32,
  column_quads: u32,   // of a row of the result
  rows: u32,           // of the result that a thread of depthwise_slide makes
  row_blocks: u32,     // so many threads make a column
  low: f32,
  high: f32,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

fn first_of(plane: u32) -> u32 {
  return plane / params.multiplier * params.source_width * params.source_height;
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
  return select(0u, params.source_width, u32(row) < params.source_height);
}
fn index_at(first: u32, row: i32, column: i32) -> u32 {
  return first + u32(row * i32(params.source_width) + column);
}

fn four_at(first: u32, row: i32, column: i32, step: u32) -> vec4<f32> {
  let steps = vec4<u32>(0u, 1u, 2u, 3u) * step;
  return x_at(index_at(first, row, column) + steps, u32(column) + steps < vec4<u32>(width_at(row)));
}

fn write(plane: u32, row: u32, column: u32, v: vec4<f32>) {
  store(0u, (plane * params.height + row) * params.width + column, activation(v + bias_of(plane % params.channels)),
        params.width - column);
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
  let plane = rest / params.height;
  let row = rest - plane * params.height;
  let first = first_of(plane);
  var tap = plane % params.channels * params.kernel_x * params.kernel_y;
  var sum = vec4<f32>();
  for (var ky = 0u; ky < params.kernel_y; ky++) {
    let y = i32(row) * params.stride_y + i32(ky) * params.dilation_y - params.padding_y;
    for (var kx = 0u; kx < params.kernel_x; kx++) {
      let x = i32(column) * params.stride_x + i32(kx) * params.dilation_x - params.padding_x;
      sum += load_weight(tap) * four_at(first, y, x, u32(params.stride_x));
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
  let line = at / params.width;
  let plane = line / params.height;
  let first = plane / params.multiplier * params.source_width * params.source_height;
  let left = vec4<i32>(at % params.width) * params.stride_x - params.padding_x;
  let top = vec4<i32>(line % params.height) * params.stride_y - params.padding_y;
  let channel = plane % params.channels;
  var tap = channel * params.kernel_x * params.kernel_y;
  var sums = vec4<f32>(bias_of(channel.x), bias_of(channel.y), bias_of(channel.z), bias_of(channel.w));
  for (var ky = 0; ky < i32(params.kernel_y); ky++) {
    let y = vec4<u32>(top + ky * params.dilation_y);
    for (var kx = 0; kx < i32(params.kernel_x); kx++) {
      let x = vec4<u32>(left + kx * params.dilation_x);
      let is_there = (y < vec4<u32>(params.source_height)) & (x < vec4<u32>(params.source_width));
      sums += vec4<f32>(load_weight(tap.x), load_weight(tap.y), load_weight(tap.z), load_weight(tap.w)) *
              x_at(first + y * params.source_width + x, is_there);
      tap += 1u;
    }
  }
  store4_result(i, activation(sums));
}
