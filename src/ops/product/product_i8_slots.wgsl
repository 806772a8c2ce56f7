// What the kernels of products of bytes share, and what fills their slots.
// Bindings: x, weight, scales, perhaps addend, result.

//! module: product_i8_params
//! slots: x, dots, bytes, bias, store
struct Params {
  rows: u32,
  depth: u32,
  width: u32,  // columns
  column_tiles: u32,
  x_pitch: u32,       // bytes from a row of x to the next
  weight_pitch: u32,  // bytes from a row of the weight to the next
  weight_first: u32,  // row
  result_first: u32,  // column
  result_width: u32,
  zero: i32,     // of x
  scale: f32,    // of x
  lowest: f32,   // 0 for a relu
  inverse: f32,  // of the result
  result_zero: f32,
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

fn columns_at(column: u32, k: u32) -> Four {
  let pitch = params.weight_pitch;
  let i = (params.weight_first + column) * pitch + k;
  return Four(sixteen(weight_bytes(i, k)), sixteen(weight_bytes(i + pitch, k)),
              sixteen(weight_bytes(i + 2u * pitch, k)), sixteen(weight_bytes(i + 3u * pitch, k)));
}

fn sums_of(w: Four) -> vec4<i32> {
  return vec4<i32>(sum16(w.a), sum16(w.b), sum16(w.c), sum16(w.d));
}

fn finish(row: u32, column: u32, sums: vec4<f32>) {
  if (row < params.rows && column < params.width) {
    let at = params.result_first + column;
    let scales = vec4<f32>(load_scales(at), load_scales(at + 1u), load_scales(at + 2u), load_scales(at + 3u));
    let v = sums * (params.scale * scales) + bias(at);
    store(0u, row * params.result_width + at, max(v, vec4<f32>(params.lowest)), params.width - column);
  }
}

// 16 neighbours of a row of x, from a multiple of 16 on. Those past the depth have no meaning: their weights are zero.
//! module: x_of_rows
fn x_at(row: u32, k: u32) -> Sixteen {
  return sixteen(x_bytes(row * params.x_pitch + k));
}

// Where all rows are whole vec4s of words.
//! module: bytes_in_vectors
fn x_bytes(i: u32) -> vec4<u32> {
  return x[i >> 4u];
}
fn weight_bytes(i: u32, k: u32) -> vec4<u32> {
  return weight[i >> 4u];
}

// Rows that begin anywhere in a word.
//! module: bytes_anywhere
fn x_bytes(i: u32) -> vec4<u32> {
  let at = i >> 2u;
  let words = vec4<u32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
  return moved(words, vec4<u32>(words.yzw, x[at + 4u]), 8u * (i & 3u));
}
fn weight_bytes(i: u32, k: u32) -> vec4<u32> {
  let at = i >> 2u;
  let words = vec4<u32>(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]);
  let bytes = moved(words, vec4<u32>(words.yzw, weight[at + 4u]), 8u * (i & 3u));
  let left = clamp(vec4<i32>(i32(params.depth - k)) - vec4<i32>(0, 4, 8, 12), vec4<i32>(0), vec4<i32>(4));
  let some = (vec4<u32>(1u) << (8u * vec4<u32>(left & vec4<i32>(3)))) - 1u;
  return bytes & select(some, vec4<u32>(0xffffffffu), left == vec4<i32>(4));
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
