// The mutators of targets whose files stay well-formed: read, changed as graphs, and written again.
#pragma once

#include <charconv>
#include <cstring>
#include <span>

#include "program/program.hpp"
#include "support/graph_mutator.hpp"
#include "support/graph_writer.hpp"
#include "support/pte_builder.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace nibble::test {

/// A blob alone comes without named data: a key is the decimal number of bytes that it stands for (see make_seeds.cpp).
inline Result<std::uint64_t> size_in_key(std::string_view key) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), size);
  if (error == std::errc{} && end == key.data() + key.size()) return size;
  return std::unexpected(Error{ErrorCode::invalid_program, "no such data"});
}

inline Bytes changed_blob(std::span<const std::byte> blob, std::uint32_t seed) {
  auto graph = read_blob(blob, size_in_key);
  if (!graph) return {};
  GraphMutator(*graph, seed).mutate(1 + seed % 4);
  const auto builder = builder_of(*graph, blob);
  return builder ? builder->finish() : Bytes{};
}

inline Bytes changed_pte(std::span<const std::byte> file, std::uint32_t seed) {
  auto program = read_program(file);
  if (!program) return {};
  GraphMutator(program->graph, seed).mutate(1 + seed % 4);
  const auto builder = builder_of(program->graph, file);
  return builder ? make_pte(*builder, {.wide_ints = seed % 3 != 0, .dynamic = seed % 2 == 0}) : Bytes{};
}

/// As LLVMFuzzerCustomMutator, with what changes a file of this kind; one in eight changes is libFuzzer's own.
template <class Change>
std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, std::uint32_t seed, const Change& change) {
  if (seed % 8 != 0) {
    const Bytes changed = change(std::as_bytes(std::span(data, size)), seed / 8);
    if (!changed.empty() && changed.size() <= most) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

}  // namespace nibble::test
