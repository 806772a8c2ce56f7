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
  row_blocks: u32,     // of a column
  low: f32,
  high: f32,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

// The input's element at a place of a plane; zero beside it.
fn x_at(first: u32, row: i32, column: i32) -> f32 {
  if (row < 0 || row >= i32(params.source_height) || column < 0 || column >= i32(params.source_width)) {
    return 0.0;
  }
  return load_x(first + u32(row) * params.source_width + u32(column));
}

fn first_of(plane: u32) -> u32 {
  return plane / params.multiplier * params.source_width * params.source_height;
}

//! module: depthwise_bias
fn bias_of(channel: u32) -> f32 {
  return load_bias(channel);
}

//! module: depthwise_no_bias
fn bias_of(channel: u32) -> f32 {
  return 0.0;
}

// A thread makes four neighbouring columns of four rows.
//! module: depthwise_block
//! uses: depthwise_params
//! slots: bias, activation, store

fn x_row(first: u32, row: i32, column: i32) -> vec4<f32> {
  if (row < 0 || row >= i32(params.source_height)) {
    return vec4<f32>();
  }
  let step = params.stride_x;
  return vec4<f32>(x_at(first, row, column), x_at(first, row, column + step), x_at(first, row, column + 2 * step),
                   x_at(first, row, column + 3 * step));
}

fn write(plane: u32, row: u32, column: u32, v: vec4<f32>) {
  if (row < params.height) {
    store(0u, (plane * params.height + row) * params.width + column, activation(v + bias_of(plane % params.channels)),
          params.width - column);
  }
}

@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = thread_index(id, groups);
  if (i >= params.threads) {
    return;
  }
  let column = i % params.column_quads * 4u;
  let rest = i / params.column_quads;
  let row = rest % params.row_blocks * 4u;
  let plane = rest / params.row_blocks;
  let first = first_of(plane);
  var tap = plane % params.channels * params.kernel_x * params.kernel_y;
  var sums = mat4x4<f32>();
  for (var ky = 0u; ky < params.kernel_y; ky++) {
    let y = i32(row) * params.stride_y + i32(ky) * params.dilation_y - params.padding_y;
    for (var kx = 0u; kx < params.kernel_x; kx++) {
      let x = i32(column) * params.stride_x + i32(kx) * params.dilation_x - params.padding_x;
      let w = load_weight(tap);
      tap++;
      sums += w * mat4x4<f32>(x_row(first, y, x), x_row(first, y + params.stride_y, x),
                              x_row(first, y + 2 * params.stride_y, x), x_row(first, y + 3 * params.stride_y, x));
    }
  }
  write(plane, row, column, sums[0]);
  write(plane, row + 1u, column, sums[1]);
  write(plane, row + 2u, column, sums[2]);
  write(plane, row + 3u, column, sums[3]);
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
  var sums = vec4<f32>();
  for (var lane = 0u; lane < 4u; lane++) {
    let at = 4u * i + lane;
    let column = at % params.width;
    let row = at / params.width % params.height;
    let plane = at / (params.width * params.height);
    let first = first_of(plane);
    let channel = plane % params.channels;
    var tap = channel * params.kernel_x * params.kernel_y;
    var sum = bias_of(channel);
    for (var ky = 0u; ky < params.kernel_y; ky++) {
      let y = i32(row) * params.stride_y + i32(ky) * params.dilation_y - params.padding_y;
      for (var kx = 0u; kx < params.kernel_x; kx++) {
        let x = i32(column) * params.stride_x + i32(kx) * params.dilation_x - params.padding_x;
        sum += load_weight(tap) * x_at(first, y, x);
        tap++;
      }
    }
    sums[lane] = sum;
  }
  store4_result(i, activation(sums));
}
