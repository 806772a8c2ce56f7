#include "api/kept_constants.hpp"

#include <algorithm>
#include <new>

#include "gpu/uploader.hpp"

namespace nibble {
namespace {

std::unexpected<Error> no_memory(std::size_t bytes) {
  return fail(ErrorCode::out_of_memory, "there is no memory for {} bytes of state", bytes);
}

}  // namespace

Result<std::unique_ptr<KeptConstants>> KeptConstants::make(ConstantSource& source,
                                                           std::span<const std::uint32_t> constants) {
  auto self = std::make_unique<KeptConstants>();
  std::size_t most_zeros = 0;
  for (const auto constant : constants) {
    TRY_ASSIGN(const auto bytes, source.open(constant));
    Kept& kept = self->kept_[constant];
    kept.length = bytes.size();
    if (gpu::is_zero(bytes)) {
      most_zeros = std::max(most_zeros, bytes.size());
    } else {
      kept.bytes.reset(new (std::nothrow) std::byte[bytes.size()]);
      if (kept.bytes == nullptr) return no_memory(bytes.size());
      std::ranges::copy(bytes, kept.bytes.get());
    }
    source.close(constant);
  }
  self->zeros_.reset(static_cast<std::byte*>(std::calloc(std::max<std::size_t>(1, most_zeros), 1)));
  if (self->zeros_ == nullptr) return no_memory(most_zeros);
  return self;
}

Result<std::span<const std::byte>> KeptConstants::open(std::uint32_t constant) {
  const auto found = kept_.find(constant);
  if (found == kept_.end()) return fail(ErrorCode::internal, "constant {} was not kept", constant);
  const auto& [length, bytes] = found->second;
  return std::span<const std::byte>(bytes != nullptr ? bytes.get() : zeros_.get(), length);
}

}  // namespace nibble
