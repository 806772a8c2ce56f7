// Building and passing on errors.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "nibble/types.hpp"

namespace nibble {

/// What fail() does for any list of types, once.
[[nodiscard, gnu::noinline]] inline std::unexpected<Error> vfail(ErrorCode code, fmt::string_view text,
                                                                 fmt::format_args args) {
  return std::unexpected(Error{code, fmt::vformat(text, args)});
}

template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return vfail(code, text, fmt::make_format_args(args...));
}

/// "a, b, c". The same of {fmt} takes formats for the items too, which is more than the web's package has room for.
template <class Items>
[[nodiscard]] std::string joined(const Items& items) {
  std::string text;
  for (const auto& item : items) text += fmt::format("{}{}", text.empty() ? "" : ", ", item);
  return text;
}

/// What a file or a caller calls something, for a sentence: in one line, and not too long for it.
[[nodiscard, gnu::noinline]] inline std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string line;
  for (const char c : text) {
    // A long one ends between two characters of UTF-8.
    if (line.size() >= kMost && (c & 0xc0) != 0x80) return line + "...";
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return line;
}

/// What is written in a field without a format.
struct PlainField {
  static constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
};

}  // namespace nibble

#define NIBBLE_CAT_(a, b) a##b
#define NIBBLE_CAT(a, b) NIBBLE_CAT_(a, b)

/// Returns the error of a Status or Result, if it has one.
#define TRY(...)                                                     \
  do {                                                               \
    if (auto try_status_ = (__VA_ARGS__); !try_status_) [[unlikely]] \
      return std::unexpected(std::move(try_status_).error());        \
  } while (false)

/// `TRY_ASSIGN(auto x, expr);` declares or assigns the value, or returns the error.
#define TRY_ASSIGN(target, ...)                                                   \
  auto NIBBLE_CAT(try_result_, __LINE__) = (__VA_ARGS__);                         \
  if (!NIBBLE_CAT(try_result_, __LINE__)) [[unlikely]]                            \
    return std::unexpected(std::move(NIBBLE_CAT(try_result_, __LINE__)).error()); \
  target = std::move(*NIBBLE_CAT(try_result_, __LINE__))

template <>
struct fmt::formatter<nibble::DType> : nibble::PlainField {
  auto format(nibble::DType d, fmt::format_context& ctx) const {
    return fmt::format_to(ctx.out(), "{}", nibble::to_string(d));
  }
};

template <>
struct fmt::formatter<nibble::Shape> : nibble::PlainField {
  auto format(const nibble::Shape& s, fmt::format_context& ctx) const {
    return fmt::format_to(ctx.out(), "{}", nibble::to_string(s));
  }
};
