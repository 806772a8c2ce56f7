#include "plan/tuning.hpp"

namespace nibble {

Result<ForcedVariant> parse_variant(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals >= text.size() - 1 || text.find('=', equals + 1) != std::string_view::npos) {
    return fail(ErrorCode::invalid_argument, "'{}' forces no variant; it must look like product=tile", text);
  }
  return ForcedVariant{text.substr(0, equals), text.substr(equals + 1)};
}

Status check_variants(const Options& options) {
  for (const auto& text : options.variants) TRY(parse_variant(text));
  for (std::size_t i = 0; i < options.tuning.size(); ++i) {
    const auto& row = options.tuning[i];
    const auto check = [&](std::string_view what, std::uint64_t least, std::uint64_t most) -> Status {
      if (least <= most) return {};
      return fail(ErrorCode::invalid_argument, "choices[{}] of the tuning is for {} from {} to {}", i, what, least,
                  most);
    };
    TRY(check("rows", row.min_rows, row.max_rows));
    TRY(check("widths", row.min_width, row.max_width));
  }
  return {};
}

}  // namespace nibble
