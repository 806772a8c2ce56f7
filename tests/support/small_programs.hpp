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

/// A language model: the logits after a token are its row of a table [vocabulary, vocabulary]. It takes at most `chunk`
/// tokens at a time, and keeps a cache of `context` rows that nobody reads. With `counts` it also keeps, as state
/// without rows, how many calls there were, and adds it to the logits of token 0.
inline BlobBuilder next_token_blob(const std::vector<float>& table, std::uint32_t chunk, std::uint32_t context,
                                   bool counts = false) {
  std::uint32_t vocabulary = 1;
  while (std::size_t{vocabulary} * vocabulary < table.size()) ++vocabulary;
  BlobBuilder b;
  const int tokens = b.tensor(DType::i32, {1, chunk}, {.staging = DType::i64});
  const int place = b.tensor(DType::i32, {1}, {.staging = DType::i64});
  const auto rows_of = [&](const std::vector<float>& values, std::uint32_t width) {
    const int out = b.tensor(DType::f32, {1, chunk, width});
    b.op("aten.embedding.default", {b.constant(DType::f32, {vocabulary, width}, values), tokens, b.integer(-1),
                                    b.boolean(false), b.boolean(false), out});
    return out;
  };
  int logits = rows_of(table, vocabulary);
  if (counts) {
    std::vector<float> one(vocabulary);
    one[0] = 1;
    const int calls = b.constant(DType::f32, {vocabulary}, std::vector<float>(vocabulary), {.mem_obj = 1});
    b.op("aten.add.Tensor", {calls, b.constant(DType::f32, {vocabulary}, one), b.integer(1), calls});
    const int sum = b.tensor(DType::f32, {1, chunk, vocabulary});
    b.op("aten.add.Tensor", {logits, calls, b.integer(1), sum});
    logits = sum;
  }
  const int keys = b.tensor(DType::f32, {1, chunk, 1, 4});
  b.op("aten.unsqueeze_copy.default", {rows_of(std::vector<float>(vocabulary * 4, 1), 4), b.integer(2), keys});
  const int cache = b.constant(DType::f32, {1, context, 1, 4}, std::vector<float>(context * 4), {.mem_obj = 0});
  const int start = b.symint();
  b.op("et_vk.select_as_symint.default", {place, b.integer(0), b.integer(0), start});
  b.op("update_cache.default", {keys, cache, start, cache});
  b.inputs({tokens, place});
  b.outputs({logits});
  return b;
}

}  // namespace nibble::test
