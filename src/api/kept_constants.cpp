#include "api/kept_constants.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "gpu/uploader.hpp"

namespace nibble {

Result<std::unique_ptr<KeptConstants>> KeptConstants::make(ConstantSource& source, const Layout& layout) {
  auto self = std::make_unique<KeptConstants>();
  for (const auto& upload : layout.uploads) {
    if (layout.buffers[upload.buffer].role != BufferRole::state) continue;
    auto& length = self->kept_[upload.constant].length;
    length = std::max(length, upload.source_offset + upload.bytes);
  }
  for (auto& [constant, kept] : self->kept_) {
    TRY(take(source, constant, kept));
    source.close(constant);
  }
  return self;
}

Status KeptConstants::take(ConstantSource& source, std::uint32_t constant, Kept& kept) {
  constexpr std::uint64_t kPiece = std::uint64_t{64} << 10;
  std::vector<std::byte> piece(std::min(kept.length, kPiece));
  bool is_zero = true;
  for (std::uint64_t at = 0; is_zero && at < kept.length; at += kPiece) {
    const auto part = std::span(piece).first(std::min(kPiece, kept.length - at));
    TRY(source.read(constant, at, part));
    is_zero = gpu::is_zero(part);
  }
  if (is_zero) return {};
  kept.bytes.reset(new (std::nothrow) std::byte[kept.length]);
  if (kept.bytes == nullptr) {
    return fail(ErrorCode::out_of_memory, "there is no memory for {} bytes of state", kept.length);
  }
  return source.read(constant, 0, {kept.bytes.get(), static_cast<std::size_t>(kept.length)});
}

Status KeptConstants::read(std::uint32_t constant, std::uint64_t offset, std::span<std::byte> to) {
  const auto found = kept_.find(constant);
  if (found == kept_.end()) return fail(ErrorCode::internal, "constant {} was not kept", constant);
  const auto& [length, bytes] = found->second;
  if (bytes != nullptr) return copy_constant(constant, {bytes.get(), static_cast<std::size_t>(length)}, offset, to);
  TRY(check_constant(constant, length, offset, to.size()));
  std::ranges::fill(to, std::byte{0});
  return {};
}

}  // namespace nibble
