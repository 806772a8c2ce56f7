// Constants of a delegate's program: inline in its blob, or by name in what ExecuTorch keeps beside it.
#pragma once

#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "plan/constant_source.hpp"

namespace nibble {

/// The bytes that ExecuTorch has under `key`; `map` may be null, as ExecuTorch hands it over.
Result<::executorch::runtime::FreeableBuffer> named_data(const ::executorch::runtime::NamedDataMap* map,
                                                         std::string_view key);

/// ExecuTorch may have read a constant from a file into memory: each is held only while it is uploaded.
class DelegateConstants final : public ConstantSource {
 public:
  DelegateConstants(std::span<const std::byte> blob, const ::executorch::runtime::NamedDataMap* map,
                    std::span<const Constant> constants)
      : blob_(blob), map_(map), constants_(constants.begin(), constants.end()), open_(constants.size()) {}

  Status read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) override;
  void close(std::uint32_t constant) override { open_[constant].reset(); }

 private:
  std::span<const std::byte> blob_;
  const ::executorch::runtime::NamedDataMap* map_;
  std::vector<Constant> constants_;
  std::vector<std::optional<::executorch::runtime::FreeableBuffer>> open_;
};

}  // namespace nibble
