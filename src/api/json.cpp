#include "api/json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "program/checks.hpp"

namespace nibble {
namespace {

/// Builds a value from what the JSON library reads.
class JsonBuilder {
 public:
  explicit JsonBuilder(Json& root) : root_(root) {}

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(const std::string& value) { return add(value); }
  static bool binary(const std::vector<std::uint8_t>&) { return false; }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool key(const std::string& name) {
    names_.back() = name;
    return true;
  }
  bool end_array() { return end(); }
  bool end_object() { return end(); }
  static bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  bool is_deep() const { return is_deep_; }

 private:
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& list = *open_.back();
    if (list.as<Json::Array>() != nullptr) {
      list.push_back(std::move(value));
      return const_cast<Json&>(list.as<Json::Array>()->back());
    }
    // A name that comes twice keeps its first value; the other goes nowhere.
    if (is_known(list)) return nowhere_[open_.size()] = std::move(value);
    list.append(names_.back(), std::move(value));
    return const_cast<Json&>(list.as<Json::Object>()->back().second);
  }
  /// Whether the object has the next name. It is looked for one by one as long as there are few.
  bool is_known(const Json& object) {
    const auto& members = *object.as<Json::Object>();
    if (members.size() < kFew) return object.find(names_.back()) != nullptr;
    auto& known = known_.back();
    if (known.empty()) {
      for (const auto& member : members) known.insert(member.first);
    }
    return !known.insert(names_.back()).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json list) {
    is_deep_ = is_deep_ || open_.size() == Json::kMostDepth;
    if (is_deep_) return false;
    open_.push_back(&place(std::move(list)));
    names_.emplace_back();
    known_.emplace_back();
    return true;
  }
  bool end() {
    open_.pop_back();
    names_.pop_back();
    known_.pop_back();
    return true;
  }

  static constexpr std::size_t kFew = 16;

  Json& root_;
  std::array<Json, Json::kMostDepth + 1> nowhere_;  ///< by depth: what goes nowhere may itself have names twice
  std::vector<Json*> open_;         ///< the lists around the next value; each is the last item of the one before
  std::vector<std::string> names_;  ///< of the next value in each of them
  std::vector<std::unordered_set<std::string>> known_;  ///< names in each of them, if they are many
  bool is_deep_ = false;
};

void write_text(std::string& to, std::string_view text, Json::Letters letters) {
  to += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      to += '\\';
      to += text[i];
    } else if (length == 0 || (length > 1 && letters == Json::Letters::ascii)) {
      to += letters == Json::Letters::ascii ? "\\ufffd" : "\ufffd";
    } else if (c < 0x20) {
      to += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\u{:04x}", c);
    } else {
      to += text.substr(i, length);
    }
    i += std::max<std::size_t>(1, length);
  }
  to += '"';
}

}  // namespace

Json::Json(std::initializer_list<Json> items) {
  const auto is_member = [](const Json& item) {
    const auto* pair = item.as<Array>();
    return pair != nullptr && pair->size() == 2 && pair->front().as<std::string>() != nullptr;
  };
  if (!std::ranges::all_of(items, is_member)) {
    value_ = Array(items);
    return;
  }
  auto& members = value_.emplace<Object>();
  for (const auto& item : items)
    members.emplace_back(*item.as<Array>()->front().as<std::string>(), item.as<Array>()->back());
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

Result<Json> Json::parse(std::string_view text) {
  Json json;
  JsonBuilder builder(json);
  if (nlohmann::json::sax_parse(text, &builder)) return json;
  if (builder.is_deep()) return fail(ErrorCode::invalid_argument, "has lists in lists, deeper than {}", kMostDepth);
  return fail(ErrorCode::invalid_argument, "is no JSON");
}

std::optional<double> Json::number() const {
  if (const auto* number = as<double>()) return *number;
  if (const auto* count = as<std::uint64_t>()) return static_cast<double>(*count);
  if (const auto* below = as<std::int64_t>()) return static_cast<double>(*below);
  return std::nullopt;
}

const Json* Json::find(std::string_view name) const {
  const auto* members = as<Object>();
  if (members == nullptr) return nullptr;
  const auto found =
      std::ranges::find(*members, name, [](const auto& member) -> std::string_view { return member.first; });
  return found != members->end() ? &found->second : nullptr;
}

Json& Json::operator[](std::string_view name) {
  if (const Json* found = find(name)) return const_cast<Json&>(*found);
  if (as<Object>() == nullptr) value_ = Object();
  return std::get_if<Object>(&value_)->emplace_back(name, nullptr).second;
}

void Json::push_back(Json item) {
  if (as<Array>() == nullptr) value_ = Array();
  std::get_if<Array>(&value_)->push_back(std::move(item));
}

std::string Json::dump(int indent, Letters letters) const {
  std::string text;
  write(text, indent, 0, letters);
  return text;
}

void Json::write(std::string& to, int indent, int level, Letters letters) const {
  const auto line = [&](int depth) {
    if (indent >= 0) to.append(1, '\n').append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
  };
  const auto list = [&](const auto& items, std::string_view ends, const auto& write_item) {
    to += ends[0];
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) to += ',';
      line(level + 1);
      write_item(items[i]);
    }
    if (!items.empty()) line(level);
    to += ends[1];
  };
  if (is_null()) {
    to += "null";
  } else if (const auto* flag = as<bool>()) {
    to += *flag ? "true" : "false";
  } else if (const auto* count = as<std::uint64_t>()) {
    to += fmt::format("{}", *count);
  } else if (const auto* integer = as<std::int64_t>()) {
    to += fmt::format("{}", *integer);
  } else if (const auto* number = as<double>()) {
    const std::string digits = std::isfinite(*number) ? fmt::format("{}", *number) : "null";
    to += digits;
    // Keep it recognizable for readers that distinguish 2 from 2.0.
    if (digits.find_first_of(".eu") == std::string::npos) to += ".0";
  } else if (const auto* text = as<std::string>()) {
    write_text(to, *text, letters);
  } else if (const auto* items = as<Array>()) {
    list(*items, "[]", [&](const Json& item) { item.write(to, indent, level + 1, letters); });
  } else if (const auto* members = as<Object>()) {
    list(*members, "{}", [&](const auto& member) {
      write_text(to, member.first, letters);
      to += indent >= 0 ? ": " : ":";
      member.second.write(to, indent, level + 1, letters);
    });
  }
}

}  // namespace nibble
