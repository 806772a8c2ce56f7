// What is not a template in {fmt}, compiled once: header-only, every file of every room would compile all of it again,
// and that was two thirds of the build. The wasm build keeps to the headers: its link drops what is not used.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
// The templates that format.h declares extern.
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
