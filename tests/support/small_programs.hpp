// Small programs that many tests and the fuzzers' seeds begin with.
#pragma once

#include <array>

#include "support/blob_builder.hpp"

namespace nibble::test {

/// ids [2, 3] -> 4-bit embedding of a 10 x 32 table; the table lies in the blob, its scales are named data.
inline BlobBuilder embedding_blob() {
  BlobBuilder b;
  const int table = b.constant(DType::u8, {10, 16}, std::vector<std::uint8_t>(160, 0x5a));
  const int scales = b.named_constant(DType::f32, {10, 2}, "scales", bytes_of(std::vector<float>(20, 0.5F)));
  const int ids = b.tensor(DType::i32, {2, 3}, {.mem_obj = 0});
  const int out = b.tensor(DType::f32, {2, 3, 32}, {.mem_obj = 1});
  const int group = b.integer(16);
  const int linear = b.boolean(true);
  b.op("et_vk.embedding_q4gsw.default", {table, scales, group, ids, linear, out});
  b.inputs({ids});
  b.outputs({out});
  return b;
}

/// A value of every kind, state, a rank-0 tensor, SymInts at both ends and an empty constant.
inline BlobBuilder every_kind_blob() {
  BlobBuilder b;
  const int x = b.tensor(DType::f16, {4, 1}, {.staging = DType::f32, .mem_obj = 0});
  const int state = b.constant(DType::f32, {4}, std::vector<float>{1, 2, 3, 4}, {.mem_obj = 2});
  const int empty = b.constant(DType::f32, {0, 4}, Bytes{});
  const int scalar = b.tensor(DType::f32, {});
  const int length = b.symint();
  const int half = b.symint();
  b.null();
  const int two = b.number(2.0);
  const int dims = b.ints({-1, 4});
  b.numbers({0.5, 1.5});
  b.booleans({true, false, true});
  const int mode = b.text("floor");
  const int items = b.list({x, state});
  b.list({items, dims});
  b.op("aten.cat.default", {items, two, scalar});
  b.op("floordiv", {length, two, half});
  b.op("aten.div.Tensor_mode", {x, empty, mode, scalar});
  b.inputs({x, length});
  b.outputs({scalar, half, scalar});
  return b;
}

/// query, key, value [1, 1, 4, 8] and a place -> attention over KV caches of `places` rows, which begin as zeros.
inline BlobBuilder cached_attention_blob(std::uint32_t places) {
  BlobBuilder b;
  const std::vector<float> zeros(std::size_t{places} * 4 * 8);
  std::array<int, 3> qkv{};
  for (auto& v : qkv) v = b.tensor(DType::f32, {1, 1, 4, 8});
  const int place = b.tensor(DType::i32, {1});
  const int start = b.symint();
  b.op("et_vk.select_as_symint.default", {place, b.integer(0), b.integer(0), start});
  const int keys = b.constant(DType::f32, {1, places, 4, 8}, zeros, {.mem_obj = 0});
  const int values = b.constant(DType::f32, {1, places, 4, 8}, zeros, {.mem_obj = 1});
  const int out = b.tensor(DType::f32, {1, 1, 4, 8});
  b.op("sdpa_with_kv_cache.default", {qkv[0], qkv[1], qkv[2], keys, values, start, b.integer(1), b.null(), b.number(0),
                                      b.boolean(true), b.null(), out});
  b.inputs({qkv[0], qkv[1], qkv[2], place});
  b.outputs({out});
  return b;
}

}  // namespace nibble::test
