// What tells programs apart whose sessions are saved, and what finds a damaged file. Neither is a secret or a proof:
// who wants to can make two programs of one fingerprint.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "plan/constant_source.hpp"

namespace nibble {

/// The sum of all 8-byte words, each times an odd factor that its place gives. A single changed word changes
/// these 128 bits, and the 64 that sum() makes of them but for one case in 2^64.
/// Parts may come in any order and of any size, so constants can be added as they are uploaded, in shards or not.
class PlaceHash {
 public:
  void add(std::uint64_t place, std::span<const std::byte> bytes);
  std::uint64_t sum() const;

 private:
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

struct Fingerprint {
  std::uint64_t structure = 0;  ///< the graph as it is in the file: values, nodes, sizes of constants
  std::uint64_t weights = 0;

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// Of a graph as it is in the file.
std::uint64_t structure_of(const Graph& graph);

/// Takes the fingerprint while a program is loaded, without reading anything twice. The exporter names most constants
/// by the SHA-256 of their bytes; that name stands for them. The others are added as they are read.
class FingerprintSource final : public ConstantSource {
 public:
  /// `inner` outlives this. The graph is that of the file, before any pass.
  FingerprintSource(const Graph& graph, ConstantSource& inner);

  Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) override;
  void close(std::uint32_t constant) override { inner_.close(constant); }

  Fingerprint get() const;

 private:
  ConstantSource& inner_;
  Fingerprint named_;
  PlaceHash others_;
  std::vector<std::uint8_t> has_name_;  ///< per constant
};

}  // namespace nibble
