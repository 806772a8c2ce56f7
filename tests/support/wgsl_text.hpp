// WGSL as tokens, and the sizes of its types: as much as an audit of kernels needs.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Words, numbers, operators of one or two characters; without blanks. A template's `<` and `>` are part of its word,
/// so a type is one token.
inline std::vector<std::string_view> tokens_of(std::string_view text) {
  std::vector<std::string_view> tokens;
  const auto type_end = [&](std::size_t at) {
    int depth = 0;
    for (; at < text.size(); ++at) {
      if (text[at] == '<') ++depth;
      if (text[at] == '>' && --depth == 0) return at + 1;
    }
    return at;
  };
  const auto is_template = [](std::string_view word) {
    const bool is_vector = word.size() > 3 && std::isdigit(static_cast<unsigned char>(word[3])) != 0;
    return (is_vector && (word.starts_with("vec") || word.starts_with("mat"))) || word == "array" || word == "atomic" ||
           word == "ptr" || word == "bitcast" || word == "var";
  };
  constexpr std::array<std::string_view, 19> kPairs{
      "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "->"};
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
      ++i;
      continue;
    }
    if (is_word(text[i])) {
      const bool is_number = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
      // A number may have a sign in it, behind what begins its exponent.
      const char exponent = text.substr(i).starts_with("0x") ? 'p' : 'e';
      const auto goes_on = [&](char c) {
        return is_word(c) || (is_number && (c == '.' || ((c == '-' || c == '+') && text[end - 1] == exponent)));
      };
      while (end < text.size() && goes_on(text[end])) ++end;
      if (end < text.size() && text[end] == '<' && is_template(text.substr(i, end - i))) end = type_end(end);
    } else if (std::ranges::find(kPairs, text.substr(i, 2)) != kPairs.end()) {
      end = i + 2;
    }
    tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

/// Of a product of numbers, constants and overrides of a text; nothing if it is more than that.
inline std::optional<std::uint64_t> value_of(std::string_view product, const std::vector<std::string_view>& text,
                                             const std::map<std::string, double>& overrides) {
  std::uint64_t value = 1;
  for (const auto token : tokens_of(product)) {
    if (token == "*") continue;
    if (std::isdigit(static_cast<unsigned char>(token.front())) != 0) {
      value *= std::strtoull(std::string(token).c_str(), nullptr, 10);
    } else if (const auto given = overrides.find(std::string(token)); given != overrides.end()) {
      value *= static_cast<std::uint64_t>(given->second);
    } else {
      // const NAME = VALUE; or override NAME: TYPE = VALUE;
      const auto name = std::ranges::find(text, token);
      const auto end = std::find(name, text.end(), ";");
      const auto equals = std::find(name, end, "=");
      if (equals == end || name == text.begin() || (name[-1] != "const" && name[-1] != "override")) return {};
      std::string inner;
      for (auto it = equals + 1; it != end; ++it) inner += std::string(*it) + " ";
      const auto factor = value_of(inner, text, overrides);
      if (!factor) return {};
      value *= *factor;
    }
  }
  return value;
}

/// Sizes of types, by their names in the text.
class Types {
 public:
  void add(std::string_view name, std::uint32_t bytes) { named_[std::string(name)] = bytes; }

  /// Of an element in an array; nothing if it is not known. A vec3 takes the room of a vec4.
  std::optional<std::uint32_t> stride(std::string_view type) const {
    std::string t;
    for (const char c : type) {
      if (c != ' ') t += c;
    }
    if (t == "f32" || t == "i32" || t == "u32") return 4;
    if (t == "f16") return 2;
    if (const auto found = named_.find(t); found != named_.end()) return found->second;
    if (t.starts_with("mat") && t.size() > 7) return static_cast<std::uint32_t>((t[3] - '0') * (t[5] == '2' ? 8 : 16));
    if (!t.starts_with("vec") || t.size() < 5) return {};
    const auto part = component(t);
    if (!part) return {};
    return static_cast<std::uint32_t>(t[3] == '3' ? 4 : t[3] - '0') * *part;
  }

  /// Of a vector's components.
  std::optional<std::uint32_t> component(std::string_view type) const {
    if (!type.starts_with("vec") || type.size() < 5) return {};
    if (type[4] != '<') return type[4] == 'h' ? 2 : 4;
    return stride(type.substr(5, type.size() - 6));
  }

 private:
  std::map<std::string, std::uint32_t> named_;
};

}  // namespace nibble::test
