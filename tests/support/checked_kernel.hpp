// A build of a pipeline that tells which indices lie outside of their arrays: those of storage, of workgroup memory and
// of functions. A pure function of a text, as traced_kernel.hpp.
#pragma once

#include <map>

#include "plan/layout.hpp"
#include "support/wgsl_text.hpp"

namespace nibble::test {

struct CheckedKernel {
  PipelineDesc desc;  ///< with one binding more, the last: a word per site, 0 if all of its indices are inside
  std::vector<std::string> sites{};  ///< the accesses, as they stand in the text
};

class IndexChecker {
 public:
  explicit IndexChecker(const PipelineDesc& desc) : tokens_(tokens_of(desc.wgsl)) { made_.desc = desc; }

  CheckedKernel run() {
    std::string text = rewritten(0, tokens_.size());
    const auto binding = made_.desc.bindings.size() + 1;
    text +=
        "\n@group(0) @binding(" + std::to_string(binding) + R"() var<storage, read_write> outside: array<atomic<u32>>;
fn check_index(site: u32, limit: u32, i: u32) -> u32 {
  if (i >= limit) { atomicMax(&outside[site], max(i, 1u)); }
  return i;
}
)";
    made_.desc.wgsl = std::move(text);
    made_.desc.bindings.push_back(Access::read_write);
    return std::move(made_);
  }

 private:
  struct Array {
    std::string limit;
    std::string parts;  ///< of an element that has some
  };

  static std::string parts_of(std::string_view element) {
    if (element.starts_with("vec") || element.starts_with("mat")) return std::string(1, element[3]) + "u";
    const auto comma = element.rfind(',');
    return element.starts_with("array<")
               ? "u32(" + std::string(element.substr(comma + 1, element.size() - comma - 2)) + ")"
               : std::string();
  }

  /// `var NAME: array<…>`, or `var<…> NAME: array<…>`.
  void declare(std::size_t at) {
    if (at + 3 >= tokens_.size() || !tokens_[at].starts_with("var") || tokens_[at + 2] != ":") return;
    const auto type = tokens_[at + 3];
    const std::string name(tokens_[at + 1]);
    arrays_.erase(name);
    if (!type.starts_with("array<") || type.contains("atomic")) return;
    auto element = type.substr(6, type.size() - 7);
    std::string limit = "arrayLength(&" + name + ")";
    if (const auto comma = element.rfind(','); comma != std::string_view::npos && element.rfind('>') + 1 <= comma) {
      limit = "u32(" + std::string(element.substr(comma + 1)) + ")";
      element = element.substr(0, comma);
    }
    arrays_[name] = {limit, parts_of(element)};
  }

  std::size_t bracket_end(std::size_t at) const {
    for (int open = 0; at < tokens_.size(); ++at) {
      if (tokens_[at] == "[") ++open;
      if (tokens_[at] == "]" && --open == 0) return at;
    }
    return at;
  }

  /// Of `[…]`, which begins at `at`; afterwards `at` is behind it.
  std::string index(std::size_t& at, std::string_view name, const std::string& limit) {
    const std::size_t end = bracket_end(at);
    std::string shown(name);
    for (auto i = at; i <= end; ++i) shown += tokens_[i];
    made_.sites.push_back(shown);
    const auto site = std::to_string(made_.sites.size() - 1);
    std::string text = "[check_index(" + site + "u, " + limit + ", u32(" + rewritten(at + 1, end) + "))]";
    at = end + 1;
    return text;
  }

  std::string rewritten(std::size_t at, std::size_t end) {
    std::string out;
    while (at < end) {
      declare(at);
      const bool is_member = at > 0 && tokens_[at - 1] == ".";
      const auto token = tokens_[at++];
      out += token;
      const auto found = arrays_.find(std::string(token));
      if (is_member || found == arrays_.end() || at >= end || tokens_[at] != "[") {
        out += token == ";" || token == "{" || token == "}" ? '\n' : ' ';
        continue;
      }
      const Array array = found->second;
      out += index(at, token, array.limit);
      if (at < end && tokens_[at] == "[" && !array.parts.empty()) out += index(at, token, array.parts);
      out += ' ';
    }
    return out;
  }

  std::vector<std::string_view> tokens_;
  std::map<std::string, Array> arrays_;
  CheckedKernel made_;
};

inline CheckedKernel checked(const PipelineDesc& desc) { return IndexChecker(desc).run(); }

}  // namespace nibble::test
