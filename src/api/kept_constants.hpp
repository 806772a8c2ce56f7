// The constants that a session's state begins with, in memory of their own: sessions are made after the load, when the
// file may be gone or another one.
#pragma once

#include <map>
#include <memory>

#include "plan/constant_source.hpp"
#include "plan/layout.hpp"

namespace nibble {

/// May be used by several threads at once.
class KeptConstants final : public ConstantSource {
 public:
  /// Copies the constants that the layout's state begins with.
  static Result<std::unique_ptr<KeptConstants>> make(ConstantSource& source, const Layout& layout);

  Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) override;

 private:
  struct Kept {
    std::uint64_t length = 0;
    std::unique_ptr<std::byte[]> bytes = {};  ///< null where all are zero, as in most caches
  };

  static Status take(ConstantSource& source, std::uint32_t constant, Kept& kept);

  std::map<std::uint32_t, Kept> kept_;
};

}  // namespace nibble
