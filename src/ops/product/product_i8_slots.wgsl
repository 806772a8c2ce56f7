// What the kernels of products of bytes share, and what fills their slots.
// Bindings: x, weight, scales, perhaps addend, result.

//! module: product_i8_params
//! slots: x, dots, bytes, bias, store
struct Params {
  tiles: u32,
  rows: u32,
  runs: u32,   // the depth is so many runs,
  depth: u32,  // each of so many
  width: u32,  // columns
  column_tiles: u32,
  x_pitch: u32,       // bytes from a row of x to the next, or from a picture
  weight_pitch: u32,  // bytes from a row of the weight to the next
  weight_first: u32,  // row
  result_first: u32,  // column
  result_width: u32,
  zero: i32,     // of x
  scale: f32,    // of x
  lowest: f32,   // 0 for a relu
  inverse: f32,  // of the result
  result_zero: f32,
  groups: u32,   // see x_of_pixels
  pixel_first: u32,
  pixel_width: u32,
  pixel_row: u32,
  pixel_column: u32,
  tap_width: u32,
  tap_row: u32,
  tap_column: u32,
  tail: array<vec4<f32>, 4>,
}
@group(0) @binding(0) var<uniform> params: Params;

override TILE_ROWS: u32 = 1u;

// 16 neighbours of each of four columns.
struct Four {
  a: Sixteen,
  b: Sixteen,
  c: Sixteen,
  d: Sixteen,
}

// Those past the end of a run, of which so many are left, are zero.
fn columns_at(column: u32, k: u32, left: u32) -> Four {
  let pitch = params.weight_pitch;
  let i = (params.weight_first + column) * pitch + k;
  return Four(sixteen(weight_bytes(i, left)), sixteen(weight_bytes(i + pitch, left)),
              sixteen(weight_bytes(i + 2u * pitch, left)), sixteen(weight_bytes(i + 3u * pitch, left)));
}

fn sums_of(w: Four) -> vec4<i32> {
  return vec4<i32>(sum16(w.a), sum16(w.b), sum16(w.c), sum16(w.d));
}

// Four columns of a row, with scales and bias.
fn scaled(column: u32, sums: vec4<f32>) -> vec4<f32> {
  let scales = vec4<f32>(load_scales(column), load_scales(column + 1u), load_scales(column + 2u),
                         load_scales(column + 3u));
  return max(sums * (params.scale * scales) + bias(column), vec4<f32>(params.lowest));
}

struct Place {
  row: u32,
  column: u32,
  batch: u32,
  first: u32,  // the weight's row of the batch's first column
}

// Where x lies, and where results go. Here all rows of x are one matrix, and so are the results.
//! module: x_of_rows
fn place_of(tile: u32) -> Place {
  return Place(tile / params.column_tiles * TILE_ROWS, tile % params.column_tiles * 4u, 0u, 0u);
}
fn rows_at(p: Place) -> vec4<u32> {
  return (vec4<u32>(p.row) + vec4<u32>(0u, 1u, 2u, 3u)) * params.x_pitch;
}
fn shift_of(run: u32) -> u32 {
  return 0u;
}
fn finish(row: u32, column: u32, sums: vec4<f32>) {
  if (row < params.rows && column < params.width) {
    let at = params.result_first + column;
    store(0u, row * params.result_width + at, scaled(at, sums), params.width - column);
  }
}
fn finish_tile(p: Place, sums: mat4x4<f32>) {
  finish(p.row, p.column, sums[0]);
  if (TILE_ROWS > 1u) {
    finish(p.row + 1u, p.column, sums[1]);
    finish(p.row + 2u, p.column, sums[2]);
    finish(p.row + 3u, p.column, sums[3]);
  }
}

// Pixels as weights_pixels has them; a run is what lies under a tap, or under a row of taps. Columns are output channels,
// and results lie as [batches, columns, pixels], where a batch is a group of a picture. Neighbouring tiles share their
// weights.
//! module: x_of_pixels
fn place_of(tile: u32) -> Place {
  let row_tiles = (params.rows + 3u) / 4u;
  let rest = tile / row_tiles;
  let batch = rest / params.column_tiles;
  return Place((tile - rest * row_tiles) * 4u, (rest - batch * params.column_tiles) * 4u, batch,
               batch % params.groups * params.width);
}
fn rows_at(p: Place) -> vec4<u32> {
  let pixel = vec4<u32>(p.row) + vec4<u32>(0u, 1u, 2u, 3u);
  let row = pixel / params.pixel_width;
  return params.pixel_first + p.batch * params.x_pitch + row * params.pixel_row +
         (pixel - row * params.pixel_width) * params.pixel_column;
}
fn shift_of(run: u32) -> u32 {
  let row = run / params.tap_width;
  return row * params.tap_row + (run - row * params.tap_width) * params.tap_column;
}
fn finish_line(p: Place, column: u32, v: vec4<f32>) {
  if (column < params.width) {
    store(0u, (p.batch * params.width + column) * params.rows + p.row, v, params.rows - p.row);
  }
}
fn finish_tile(p: Place, sums: mat4x4<f32>) {
  let at = p.first + p.column;
  let lines = transpose(mat4x4<f32>(scaled(at, sums[0]), scaled(at, sums[1]), scaled(at, sums[2]),
                                    scaled(at, sums[3])));
  finish_line(p, p.column, lines[0]);
  finish_line(p, p.column + 1u, lines[1]);
  finish_line(p, p.column + 2u, lines[2]);
  finish_line(p, p.column + 3u, lines[3]);
}

// In front of the pixels, where lines of bytes would share words.
//! module: store_beside_pixels
fn store(section: u32, i: u32, v: vec4<f32>, count: u32) {
  for (var j = 0u; j < min(4u, count); j++) {
    x[i + j] = bitcast<u32>(v[j]);
  }
}

// Where all rows are whole vec4s of words.
//! module: bytes_in_vectors
fn x_bytes(i: u32) -> vec4<u32> {
  return x[i >> 4u];
}
fn weight_bytes(i: u32, left: u32) -> vec4<u32> {
  return weight[i >> 4u];
}

// Rows that begin anywhere in a word.
//! module: bytes_anywhere
fn x_bytes(i: u32) -> vec4<u32> {
  let at = i >> 2u;
  let words = vec4<u32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
  return moved(words, vec4<u32>(words.yzw, x[at + 4u]), 8u * (i & 3u));
}
fn weight_bytes(i: u32, left: u32) -> vec4<u32> {
  let at = i >> 2u;
  let words = vec4<u32>(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]);
  let bytes = moved(words, vec4<u32>(words.yzw, weight[at + 4u]), 8u * (i & 3u));
  let count = clamp(vec4<i32>(i32(left)) - vec4<i32>(0, 4, 8, 12), vec4<i32>(0), vec4<i32>(4));
  let some = (vec4<u32>(1u) << (8u * vec4<u32>(count & vec4<i32>(3)))) - 1u;
  return bytes & select(some, vec4<u32>(0xffffffffu), count == vec4<i32>(4));
}
// In two steps, because a shift by 32 is none.
fn moved(low: vec4<u32>, high: vec4<u32>, bits: u32) -> vec4<u32> {
  return (low >> vec4<u32>(bits)) | ((high << vec4<u32>(1u)) << vec4<u32>(31u - bits));
}

// Where the device multiplies four bytes at once.
//! module: dots_of_words
alias Sixteen = vec4<u32>;
fn sixteen(v: vec4<u32>) -> Sixteen {
  return v;
}
fn dot16(a: Sixteen, b: Sixteen) -> i32 {
  return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}
fn sum16(a: Sixteen) -> i32 {
  return dot16(a, vec4<u32>(0x01010101u));
}

// Any device: unpacked once, and multiplied as floats, in which 16 products and their sum are exact.
//! module: dots_of_floats
alias Sixteen = mat4x4<f32>;
fn four(word: u32) -> vec4<f32> {
  return vec4<f32>(vec4<i32>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
fn sixteen(v: vec4<u32>) -> Sixteen {
  return Sixteen(four(v.x), four(v.y), four(v.z), four(v.w));
}
fn dot16(a: Sixteen, b: Sixteen) -> i32 {
  return i32(dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3]));
}
fn sum16(a: Sixteen) -> i32 {
  let v = a[0] + a[1] + a[2] + a[3];
  return i32(v.x + v.y + v.z + v.w);
}
