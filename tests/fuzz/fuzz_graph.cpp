// Behind the door: graphs that are well-formed, and that no exporter makes.
#include <charconv>
#include <cstring>

#include "plan_and_step.hpp"
#include "program/blob.hpp"
#include "support/graph_mutator.hpp"

namespace {

constexpr std::size_t kMark = 4;

/// As in fuzz_blob.cpp: a key is the number of bytes that it stands for.
nibble::Result<std::uint64_t> size_in_key(std::string_view key) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), size);
  if (error == std::errc{} && end == key.data() + key.size()) return size;
  return std::unexpected(nibble::Error{nibble::ErrorCode::invalid_program, "no such data"});
}

bool is_marked(const std::uint8_t* data, std::size_t size) {
  return size >= 2 * kMark && std::memcmp(data + size - 2 * kMark, "seed", kMark) == 0;
}

}  // namespace

/// Leaves the blob as it is and puts another number behind it, which decides how its graph is changed.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  if (!is_marked(data, size)) {
    if (size + 2 * kMark > most) return size;
    std::memcpy(data + size, "seed", kMark);
    size += 2 * kMark;
  }
  std::memcpy(data + size - kMark, &seed, kMark);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto blob = std::as_bytes(std::span(data, size));
  auto graph = nibble::read_blob(is_marked(data, size) ? blob.first(size - 2 * kMark) : blob, size_in_key);
  if (!graph) return 0;
  const auto seed = nibble::test::seed_of({data, size});
  nibble::test::GraphMutator(*graph, seed).mutate(1 + seed % 8);
  const auto kind = seed % 3 == 0 ? nibble::AdapterKind::cpu : nibble::AdapterKind::discrete;
  nibble::test::plan_and_step(std::move(*graph), kind, seed);
  return 0;
}
