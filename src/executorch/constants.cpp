#include "constants.hpp"

#include "graph/status.hpp"

namespace nibble {

namespace et = ::executorch::runtime;

Result<et::FreeableBuffer> named_data(const et::NamedDataMap* map, std::string_view key) {
  if (map == nullptr) {
    return fail(ErrorCode::invalid_program, "the program wants the data named '{}', but it came with no named data",
                key);
  }
  auto data = map->get_data(key);
  if (!data.ok()) {
    const bool absent = data.error() == et::Error::NotFound;
    return fail(absent ? ErrorCode::invalid_program : ErrorCode::io,
                "the data named '{}' cannot be read (ExecuTorch's error {})", key, static_cast<int>(data.error()));
  }
  return std::move(data.get());
}

Status DelegateConstants::read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) {
  const Constant& wanted = constants_[constant];
  if (wanted.located) return copy_constant(constant, blob_.subspan(wanted.offset, wanted.length), offset, to);
  auto& held = open_[constant];
  if (!held) {
    TRY_ASSIGN(auto data, named_data(map_, wanted.key));
    if (data.size() != wanted.length) {
      return fail(ErrorCode::invalid_program, "constant {} has {} bytes, but the data named '{}' has {}", constant,
                  wanted.length, wanted.key, data.size());
    }
    held.emplace(std::move(data));
  }
  return copy_constant(constant, {static_cast<const std::byte*>(held->data()), held->size()}, offset, to);
}

}  // namespace nibble
