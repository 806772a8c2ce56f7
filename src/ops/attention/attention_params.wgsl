// What all kernels of attention but the merge have in common.
//! slots: load, mask

struct Params {
  batch: u32,
  key_heads: u32,
  group: u32,  // heads that share a key head
  rows: u32,
  keys: u32,
  size: u32,   // elements per row of query and keys
  tiles: u32,  // tiles of rows that share a key head
  parts: u32,
  part_keys: u32,
  causal: u32,  // 1: row r sees the keys up to first + r
  first: u32,
  scale: f32,
  quads: u32,          // vec4s per row
  in_parts: u32,       // 1: the result is each part's largest score, sum and weighted values, for attention_merge
  value_size: u32,     // elements per row of values and result
  value_quads: u32,
  lanes_per_row: u32,  // of a tile: the power of two from value_quads up
  columns: u32,        // of a tile: pieces of KEYS vec4s that a row of values has
  query_strides: vec4<u32>,   // of batch, head and row, in elements; 0 where a tensor is repeated
  key_strides: vec4<u32>,
  value_strides: vec4<u32>,
  result_strides: vec4<u32>,  // in rows
  mask_strides: vec4<u32>,    // the last one is of the keys
}
@group(0) @binding(0) var<uniform> params: Params;

const LOWEST = -3.4028234e38;

// Four rows' scores of a key, with their masks, which begin at `at`.
fn biased(s: vec4<f32>, at: vec4<u32>, key: u32) -> vec4<f32> {
  return s + vec4<f32>(bias(at.x, key), bias(at.y, key), bias(at.z, key), bias(at.w, key));
}
