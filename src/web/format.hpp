// {fmt} understands many kinds of fields; texts of the planner have few. On the web, where every byte is sent to the
// page, fields are read by a function that knows just those: scripts/build_web.py includes this header before all else.
#pragma once

#include <fmt/core.h>

namespace nibble::web {

/// Writes a text with its fields: {}, {0} and, for unsigned numbers, those like {:04x}. Anything else is a bug.
void write_fields(fmt::detail::buffer<char>& out, fmt::string_view text, fmt::format_args args);

}  // namespace nibble::web

#ifdef __wasm__
// Here and not on the command line, with which core.h would bring the library's own function too.
#define FMT_HEADER_ONLY
// Later versions have no template here. They work as they are.
#if FMT_VERSION < 110000
template <>
inline void fmt::detail::vformat_to<char>(buffer<char>& out, string_view text, format_args args, locale_ref) {
  nibble::web::write_fields(out, text, args);
}
#endif
#endif
