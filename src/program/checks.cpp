#include "program/checks.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace nibble {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::size_t kMaxNameBytes = 4096;

}  // namespace

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (auto b : bytes) text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<unsigned>(b));
  return text;
}

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Rejects overlong forms, surrogates, and numbers past the last code point.
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return length;
}

Result<std::string_view> read_name(const flatbuffers::String* text, std::string_view what) {
  if (text == nullptr || text->size() == 0) return fail(ErrorCode::invalid_program, "{} is missing or empty", what);
  const std::string_view name(text->c_str(), text->size());
  if (name.size() > kMaxNameBytes) {
    return fail(ErrorCode::invalid_program, "{} is {} bytes long, but the limit is {}", what, name.size(),
                kMaxNameBytes);
  }
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(name.substr(i));
    if (length == 0 || static_cast<unsigned char>(name[i]) < 0x20 || name[i] == 0x7f) {
      return fail(ErrorCode::invalid_program, "{} has a byte at position {} that is no text", what, i);
    }
    i += length;
  }
  return name;
}

Result<std::uint64_t> tensor_bytes(const Shape& shape, DType dtype, std::string_view what) {
  Size limit = size_of(dtype);
  for (auto d : shape.dims()) limit = limit * Size::from_signed(std::max<std::int64_t>(d, 1));
  if (!limit.fits(std::numeric_limits<std::int64_t>::max())) {
    return fail(ErrorCode::invalid_program, "{} is a {} tensor of shape {}, whose byte size does not fit 63 bits", what,
                dtype, shape);
  }
  return Size::bytes(shape, dtype).unchecked();
}

Status check_rank(std::size_t count, std::string_view what) {
  if (count <= Shape::kMaxRank) return {};
  return fail(ErrorCode::unsupported, "{} is a tensor with {} dimensions, but Nibble handles at most {}", what, count,
              Shape::kMaxRank);
}

Status check_flatbuffer_size(std::uint64_t bytes, std::string_view what) {
  if (bytes < FLATBUFFERS_MAX_BUFFER_SIZE) return {};
  return fail(ErrorCode::unsupported, "{} has {} bytes, but a FlatBuffer ends before 2 GiB", what, bytes);
}

Status check_flatbuffer_head(std::span<const std::byte> bytes, std::string_view identifier, std::string_view what) {
  TRY(check_flatbuffer_size(bytes.size(), what));
  if (bytes.size() < 8) {
    return fail(ErrorCode::invalid_program, "{} has {} bytes, too few for a FlatBuffer", what, bytes.size());
  }
  if (std::memcmp(bytes.data() + 4, identifier.data(), 4) != 0) {
    return fail(ErrorCode::invalid_program, "{} does not have the identifier {}: its first bytes are {}", what,
                identifier, hex(bytes.first(8)));
  }
  return {};
}

}  // namespace nibble
