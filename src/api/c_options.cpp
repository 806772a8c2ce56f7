#include "api/c_options.hpp"

#include <algorithm>

#include "api/tuning_json.hpp"
#include "option_fields.hpp"
#include "plan/tuning.hpp"

namespace nibble {
namespace {

/// Converts fields of the C struct to those of the C++ struct. A null pointer means the default.
struct FromC {
  Status operator()(const char* from, std::string& to) const {
    if (from != nullptr) to = from;
    return {};
  }
  Status operator()(std::uint64_t from, std::uint64_t& to) const {
    to = from;
    return {};
  }
  Status operator()(std::int32_t from, bool& to) const {
    to = from != 0;
    return {};
  }
  /// A list, separated by commas.
  Status operator()(const char* from, std::vector<std::string>& to) const {
    for (std::string_view text = from != nullptr ? from : ""; !text.empty();) {
      const auto end = std::min(text.find(','), text.size());
      if (end != 0) to.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
  }
  Status operator()(const char* from, std::vector<ForcedVariant>& to) const {
    std::vector<std::string> texts;
    TRY((*this)(from, texts));
    for (const auto& text : texts) {
      TRY_ASSIGN(auto forced, parse_variant(text));
      to.push_back(std::move(forced));
    }
    return {};
  }
  Status operator()(const char* from, std::vector<TuningRow>& to) const {
    if (from == nullptr) return {};
    TRY_ASSIGN(to, tuning_from_json(from));
    return {};
  }
};

}  // namespace

Result<Options> options_from_c(const nibble_load_options& given) { return take_options(given, FromC{}); }

}  // namespace nibble
