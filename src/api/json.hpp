// JSON values. Unlike those of the JSON library, they need no memory to be destroyed, so that too little of it is never
// more than an error.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/status.hpp"

namespace nibble {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  ///< in the order of writing

  // Values become JSON by themselves, so that it can be written down as nested lists.
  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  template <std::integral T>
  Json(T value)
      : value_(std::in_place_type<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>, value) {}
  Json(double value) : value_(value) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const std::string& value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  template <std::ranges::input_range Items>
    requires(!std::convertible_to<const Items&, std::string_view> && !std::same_as<Items, Json>)
  Json(const Items& items) : value_(Array(std::ranges::begin(items), std::ranges::end(items))) {}
  /// An object if every item is a list of a text and a value, else an array.
  Json(std::initializer_list<Json> items);

  static Json array() { return Json(Array()); }
  static Json object();
  /// An error ("is no JSON") also where lists nest deeper than kMostDepth. Of equal names the first counts.
  static Result<Json> parse(std::string_view text);
  static constexpr std::size_t kMostDepth = 16;

  /// The value as T, or null if it is another: bool, std::uint64_t (whole numbers from 0 on, if parsed), std::int64_t
  /// (those below), double (others), std::string, Array, Object.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  /// Any number, whatever its type.
  std::optional<double> number() const;
  bool is_null() const { return as<Null>() != nullptr; }
  /// An object's member, or null.
  const Json* find(std::string_view name) const;
  /// As find(); makes the member, and the object if this is null.
  Json& operator[](std::string_view name);
  /// Makes the array if this is null.
  void push_back(Json item);
  /// Adds a member to an object, without looking for one of that name.
  void append(std::string name, Json item) {
    if (auto* object = std::get_if<Object>(&value_)) object->emplace_back(std::move(name), std::move(item));
  }

  enum class Letters : std::uint8_t { utf8, ascii };
  /// In one line, or with `indent` spaces for each level. What is no UTF-8 is replaced.
  std::string dump(int indent = -1, Letters letters = Letters::utf8) const;

 private:
  /// Not trivial: of a variant with nothing but trivial types, texts and vectors, libstdc++ 12 thinks that it always
  /// has a value, and destroys one even if a copy found no memory.
  struct Null {
    Null() = default;
    Null(const Null&) noexcept {}
    Null& operator=(const Null&) noexcept { return *this; }
    ~Null() = default;
  };

  explicit Json(Array items) : value_(std::move(items)) {}
  void write(std::string& to, int indent, int level, Letters letters) const;

  std::variant<Null, bool, std::uint64_t, std::int64_t, double, std::string, Array, Object> value_;
};

}  // namespace nibble
