#include "api/tuning_merge.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <unordered_set>

#include "api/folder_lock.hpp"
#include "api/new_file.hpp"
#include "api/tuning_json.hpp"
#include "plan/variant.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

/// A choice of a tuning, as it is written and as it is read.
struct WrittenRow {
  const Json* json = nullptr;
  TuningRow row;

  /// What it was measured at; rows without times follow from others.
  bool is_point() const { return json->find("times") != nullptr; }
  auto place() const {
    return std::tie(row.choice, row.min_rows, row.max_rows, row.min_width, row.max_width, row.min_depth, row.max_depth,
                    row.traits);
  }
  /// Whether a point lies where this says something, and says something else.
  bool is_refuted_by(const TuningRow& point) const {
    const auto lies = [](std::uint64_t number, std::uint64_t least, std::uint64_t most) {
      return least <= number && number <= most;
    };
    return point.choice == row.choice && point.traits == row.traits && point.variant != row.variant &&
           lies(point.min_rows, row.min_rows, row.max_rows) && lies(point.min_width, row.min_width, row.max_width) &&
           lies(point.min_depth, row.min_depth, row.max_depth);
  }
};

Result<std::vector<WrittenRow>> written_rows(const Json& tuning) {
  TRY_ASSIGN(auto rows, rows_of(tuning));
  const auto& choices = *tuning.find("choices")->as<Json::Array>();
  std::vector<WrittenRow> written;
  written.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) written.push_back({&choices[i], std::move(rows[i])});
  return written;
}

/// The sentences of both, each once: those of the newer first, and not more than anyone reads.
Json all_refused(const Json& older, const Json& newer) {
  Json all = Json::array();
  constexpr std::size_t kMost = 1024;
  std::unordered_set<std::string_view> known;
  for (const Json* tuning : {&newer, &older}) {
    const Json* list = tuning->find("refused");
    if (list == nullptr || list->as<Json::Array>() == nullptr) continue;
    for (const auto& one : *list->as<Json::Array>()) {
      const auto* text = one.as<std::string>();
      if (text != nullptr && known.size() < kMost && known.insert(*text).second) all.push_back(*text);
    }
  }
  return all;
}

constexpr std::string_view kStopped = "stopped";

bool is_stopped(const Json& tuning) {
  const Json* ended = tuning.find("ended");
  return ended != nullptr && ended->as<std::string>() != nullptr && *ended->as<std::string>() == kStopped;
}

/// Two of one device. Points come before what follows from them, since the first row that fits counts.
Result<Json> join(const Json& older, Json newer) {
  TRY_ASSIGN(auto before, written_rows(older));
  TRY_ASSIGN(auto now, written_rows(newer));
  const auto by_place = [](const WrittenRow& a, const WrittenRow& b) { return a.place() < b.place(); };
  std::vector<WrittenRow> sorted = now;
  std::ranges::sort(sorted, by_place);
  std::erase_if(before, [&](const WrittenRow& old) {
    if (std::ranges::binary_search(sorted, old, by_place)) return true;
    const auto refutes = [&](const WrittenRow& one) { return one.is_point() && old.is_refuted_by(one.row); };
    return !old.is_point() && std::ranges::any_of(now, refutes);
  });
  Json choices = Json::array();
  for (const bool are_points : {true, false}) {
    for (const auto* rows : {&now, &before}) {
      for (const auto& one : *rows) {
        const bool has_room = choices.as<Json::Array>()->size() < Preferences::kMostRows;
        if (one.is_point() == are_points && has_room) choices.push_back(*one.json);
      }
    }
  }
  Json refused = all_refused(older, newer);
  if (is_stopped(newer) && older.find("ended") != nullptr) newer["ended"] = *older.find("ended");
  newer["choices"] = std::move(choices);
  newer["refused"] = std::move(refused);
  return newer;
}

/// Adds to a list of tunings.
Status add_tuning(Json& list, const Json& tuning) {
  TRY_ASSIGN(const auto on, tuned_on(tuning));
  auto& tunings = const_cast<Json::Array&>(*list.as<Json::Array>());
  for (auto& one : tunings) {
    TRY_ASSIGN(const auto other, tuned_on(one));
    if (other != on) continue;
    auto joined = join(one, tuning);
    if (!joined && is_of_this_version(on)) return std::unexpected(joined.error());
    one = joined.value_or(tuning);  // what another version wrote may be nothing that can be joined
    return {};
  }
  if (is_of_this_version(on)) TRY(rows_of(tuning));
  TRY(check_tuning_count(tunings.size() + 1));
  tunings.push_back(tuning);
  return {};
}

Result<std::string> document_of(Json list) {
  Json document = Json::object();
  document.append("tunings", std::move(list));
  std::string text = document.dump(1) + '\n';
  TRY(tuning_from_json(text));  // what is written can be read
  return text;
}

Result<Json::Array> tunings_in(std::string_view text) {
  TRY_ASSIGN(const Json document, parse_tuning(text));
  const auto* tunings = tunings_of(document);
  if (tunings != nullptr) return *tunings;
  TRY(tuning_from_json(text));
  return fail(ErrorCode::invalid_argument, "the tuning has no list of tunings to add one to");
}

/// An error says in which file it is.
Result<std::string> in_file(const std::string& path, Result<std::string> text) {
  if (text) return text;
  return fail(text.error().code, "{}: {}", path, text.error().message);
}

/// Empty if there is no such file, or nothing in it, as `mktemp` makes them.
Result<std::string> text_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) || std::filesystem::file_size(path, error) == 0) return "";
  return read_text(path, kMostTuningBytes);
}

Result<NewFile> new_file(const std::string& path) {
  std::error_code error;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  return NewFile::create(path, NewFile::Readers::usual);
}

/// Writes what `changed` makes of the text that a file has, in its place.
template <class F>
Status rewrite(const std::string& path, F&& changed) {
  const auto place = behind_links(path);
  TRY_ASSIGN(auto file, new_file(place));
  const FolderLock alone(std::filesystem::path(place).parent_path().string());
  TRY_ASSIGN(const std::string text, changed(text_of(place)));
  TRY(file.write(std::as_bytes(std::span(text))));
  return file.finish();
}

}  // namespace

Result<std::string> merge_tuning(std::string_view text, Json tuning) {
  Json merged = Json::array();
  TRY_ASSIGN(const auto on, tuned_on(tuning));
  if (!text.empty()) {
    TRY(tuning_from_json(text));
    TRY_ASSIGN(const auto before, tunings_in(text));
    for (const auto& one : before) {
      TRY_ASSIGN(auto other, tuned_on(one));
      const bool is_of_use = other.nibble == on.nibble;
      other.nibble = on.nibble;
      if (is_of_use || other != on) TRY(add_tuning(merged, one));
    }
  }
  TRY(add_tuning(merged, tuning));
  return document_of(std::move(merged));
}

Result<std::string> merge_tunings(std::span<const std::string> texts) {
  Json merged = Json::array();
  for (const auto& text : texts) {
    TRY_ASSIGN(const auto tunings, tunings_in(text));
    for (const auto& one : tunings) TRY(add_tuning(merged, one));
  }
  return document_of(std::move(merged));
}

Status check_keeping(const std::string& path, IfDamaged if_damaged) {
  if (if_damaged == IfDamaged::fail) {
    TRY_ASSIGN(const auto before, text_of(path));
    if (!before.empty()) TRY(in_file(path, merge_tunings({&before, 1})));
  }
  TRY(new_file(behind_links(path)));
  return {};
}

Status keep_tuning(const std::string& path, const Json& tuning, IfDamaged if_damaged) {
  return rewrite(path, [&](Result<std::string> text) {
    if (text) text = in_file(path, merge_tuning(*text, tuning));
    return !text && if_damaged == IfDamaged::replace ? merge_tuning({}, tuning) : text;
  });
}

Status merge_files(const std::string& path, std::span<const std::string> others) {
  std::vector<std::string> texts;
  for (const auto& other : others) {
    TRY_ASSIGN(auto text, read_text(other, kMostTuningBytes));
    TRY(in_file(other, merge_tunings({&text, 1})));
    texts.push_back(std::move(text));
  }
  return rewrite(path, [&](Result<std::string> before) {
    if (before && !before->empty()) texts.insert(texts.begin(), std::move(*before));
    return before ? in_file(path, merge_tunings(texts)) : before;
  });
}

bool was_stopped(std::string_view text, const TunedOn& on) {
  const auto tunings = tunings_in(text);
  return tunings &&
         std::ranges::any_of(*tunings, [&](const Json& one) { return is_stopped(one) && tuned_on(one) == on; });
}

}  // namespace nibble
