// A text that may be a tuning, as it may lie beside a program: read, planned with, merged and read again.
#include <cstdio>
#include <cstdlib>

#include "api/tuning_json.hpp"
#include "api/tuning_merge.hpp"
#include "ops/registry.hpp"
#include "plan/variant.hpp"

namespace {

using namespace nibble;  // NOLINT(google-build-using-namespace): a program of one file

[[noreturn]] void bug(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

template <class T>
bool is_taken(const Result<T>& result) {
  if (!result && result.error().message.empty()) bug("an error says nothing");
  return result.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto rows = tuning_from_json(text);
  const auto merged = merge_tunings({&text, 1});
  if (!is_taken(rows)) {
    if (is_taken(merged)) bug("what cannot be read is merged");
    return 0;
  }
  const auto known = all_choices(ops::registry());
  const auto preferences = Preferences::make({.tuning = *rows}, known);
  if (is_taken(preferences)) {
    for (const auto* choice : known) {
      for (const std::uint64_t number : {0, 1, 4, 64}) {
        const Facts facts{
            .rows = {number}, .width = {64}, .depth = {number}, .traits = static_cast<std::uint32_t>(number)};
        const auto picked = preferences->pick(*choice, facts, {});
        const auto possible = preferences->possible(*choice, facts, {});
        if (std::ranges::find(possible, picked) == possible.end()) bug("a call picks what was not possible");
      }
    }
  }
  if (!is_taken(merged)) return 0;
  if (const auto again = merge_tunings({&*merged, 1}); !again || *again != *merged)
    bug("merging again changes something");
  return 0;
}
