#include "web/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace nibble::web {
namespace {

/// An unsigned number in hexadecimal, with zeros in front up to `width` digits.
struct HexWriter {
  fmt::detail::buffer<char>& out;
  int width;

  template <class T>
  void operator()(T value) const {
    if constexpr (std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>) {
      auto digits = 1;
      while (digits < 16 && static_cast<unsigned long long>(value) >> (4 * digits) != 0) ++digits;
      for (auto i = std::max(digits, width); i-- > 0;) {
        out.push_back(i < digits ? "0123456789abcdef"[(value >> (4 * i)) & 15] : '0');
      }
    } else {
      std::abort();
    }
  }
};

}  // namespace

void write_fields(fmt::detail::buffer<char>& out, fmt::string_view text, fmt::format_args args) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto next = 0;
  for (const auto *at = text.begin(), *end = text.end(); at != end;) {
    const auto* brace = std::find_if(at, end, [](char c) { return c == '{' || c == '}'; });
    out.append(at, brace);
    if (brace == end) return;
    at = brace + 1;
    if (at == end) std::abort();
    if (*at == *brace) {
      out.push_back(*at++);
      continue;
    }
    const auto arg = args.get(is_digit(*at) ? *at++ - '0' : next++);
    if (at != end && *at == ':') {
      ++at;
      auto width = 0;
      for (; at != end && is_digit(*at); ++at) width = 10 * width + (*at - '0');
      if (at == end || *at++ != 'x') std::abort();
      fmt::visit_format_arg(HexWriter{out, width}, arg);
    } else {
      fmt::visit_format_arg(fmt::detail::default_arg_formatter<char>{fmt::appender(out), args, {}}, arg);
    }
    if (at == end || *at++ != '}') std::abort();
  }
}

}  // namespace nibble::web
