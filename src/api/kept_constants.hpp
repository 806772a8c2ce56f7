// The constants that a session's state begins with, in memory of their own: sessions are made after the load, when the
// file may be gone or another one.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "graph/status.hpp"
#include "plan/constant_source.hpp"

namespace nibble {

/// May be used by several threads at once.
class KeptConstants final : public ConstantSource {
 public:
  /// Copies these constants of `source`.
  static Result<std::unique_ptr<KeptConstants>> make(ConstantSource& source, std::span<const std::uint32_t> constants);

  Result<std::span<const std::byte>> open(std::uint32_t constant) override;
  void consumed(std::uint32_t, std::uint64_t) override {}
  void close(std::uint32_t) override {}

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  struct Kept {
    std::size_t length = 0;
    std::unique_ptr<std::byte[]> bytes;  ///< null where all are zero, as in most caches
  };

  std::map<std::uint32_t, Kept> kept_;
  /// As many as the longest needs. Nobody writes them, so they take no memory.
  std::unique_ptr<std::byte, Free> zeros_;
};

}  // namespace nibble
