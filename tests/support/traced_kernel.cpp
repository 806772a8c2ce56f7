#include "support/traced_kernel.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "support/wgsl_text.hpp"

namespace nibble::test {
namespace {

struct Declared {
  std::size_t array = 0;
  std::string element;
  std::uint32_t stride = 0;
};

/// Rewrites the tokens of a text, one after the other.
class Rewriter {
 public:
  Rewriter(std::string_view text, std::uint32_t subgroup) : tokens_(tokens_of(text)), subgroup_(subgroup) {}

  Status run(TracedKernel& kernel, std::uint32_t binding, std::uint32_t accesses) {
    kernel_ = &kernel;
    for (const auto& o : kernel.desc.overrides) given_[std::string(o.name)] = o.value;
    TRY(declare());
    while (at_ < tokens_.size()) TRY(next());
    write_prelude(binding, accesses);
    kernel.desc.wgsl = std::move(out_);
    return {};
  }

 private:
  std::string_view peek(std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : std::string_view();
  }
  void put(std::string_view token) {
    out_ += token;
    out_ += token == ";" || token == "{" || token == "}" ? '\n' : ' ';
  }

  /// Finds types, arrays and functions.
  Status declare() {
    // Types may stand behind those that are made of them.
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i + 4 < tokens_.size(); ++i) {
        if (tokens_[i] == "struct") declare_struct(i);
        if (tokens_[i] != "alias") continue;
        if (const auto size = types_.stride(tokens_[i + 3])) types_.add(tokens_[i + 1], *size);
      }
    }
    for (std::size_t i = 0; i + 4 < tokens_.size(); ++i) {
      if (tokens_[i] == "fn") functions_.insert(tokens_[i + 1]);
      if (tokens_[i].starts_with("var<storage") || tokens_[i] == "var<workgroup>") TRY(declare_array(i));
    }
    return {};
  }

  void declare_struct(std::size_t at) {
    std::uint32_t bytes = 0;
    std::uint32_t align = 4;
    members_[tokens_[at + 1]].clear();
    for (std::size_t i = at + 3; i + 2 < tokens_.size() && tokens_[i] != "}"; ++i) {
      if (tokens_[i] != ":") continue;
      // @builtin(VALUE) NAME: TYPE
      if (i >= 5 && tokens_[i - 4] == "(" && tokens_[i - 5] == "builtin") {
        members_[tokens_[at + 1]].push_back({tokens_[i - 1], tokens_[i - 3]});
      }
      const auto size = types_.stride(tokens_[i + 1]);
      if (!size) return;
      const std::uint32_t own = std::min(16U, *size);
      align = std::max(align, own);
      bytes = (bytes + own - 1) / own * own + *size;
    }
    types_.add(tokens_[at + 1], (bytes + align - 1) / align * align);
  }

  Status declare_array(std::size_t at) {
    const auto name = tokens_[at + 1];
    const auto type = tokens_[at + 3];
    if (!type.starts_with("array<") || type.contains("atomic")) return {};
    auto element = type.substr(6, type.size() - 7);
    std::string_view length;
    // The length is behind the last comma that is not in a type of its own.
    if (const auto comma = element.rfind(','); comma != std::string_view::npos && element.rfind('>') + 1 <= comma) {
      length = element.substr(comma + 1);
      element = element.substr(0, comma);
    }
    const auto stride = types_.stride(element);
    if (!stride) return fail(ErrorCode::unsupported, "the elements of {} have an unknown type {}", name, element);
    TracedArray array{.name = std::string(name), .is_workgroup = tokens_[at] == "var<workgroup>"};
    if (!array.is_workgroup && at >= 4)
      array.binding = static_cast<std::uint32_t>(std::atoi(std::string(tokens_[at - 2]).c_str()));
    if (array.is_workgroup) {
      const auto count = value_of(length, tokens_, given_);
      if (!count) return fail(ErrorCode::unsupported, "the length {} of {} is not known", length, name);
      array.bytes = *count * *stride;
    }
    declared_[std::string(name)] = {kernel_->arrays.size(), std::string(element), *stride};
    kernel_->arrays.push_back(std::move(array));
    return {};
  }

  Status next() {
    const auto t = peek();
    if (t == "struct") {
      while (peek() != "}") take();
      take();
      return {};
    }
    if (t == "@" && peek(1) == "compute") return take_entry();
    if (t == "fn") note_parameters();
    if ((t == "let" || t == "var" || t == "const" || t.starts_with("var<")) && depth() > 0) hide(peek(1));
    if (t == "{") {
      take();
      open(head_ != "switch");
      return {};
    }
    if (t == "}") close();
    if (t == "(") ++parens_;
    if (t == ")") --parens_;
    if ((t == ";" && parens_ == 0) || t == "}") head_ = {};
    if (head_.empty() && t != ";" && t != "}") head_ = t;
    if (t == "workgroupBarrier") put("trace_barriers += 1u;");
    if (const auto* array = find_array(t); array != nullptr && peek(1) == "[") return take_access(*array);
    count(t);
    take();
    return {};
  }

  void take() { put(tokens_[at_++]); }
  std::size_t depth() const { return blocks_.size(); }

  /// The name is that of something else until the block ends.
  void hide(std::string_view name) {
    if (declared_.contains(std::string(name))) blocks_.back().hidden.emplace_back(name);
  }
  void note_parameters() {
    for (std::size_t i = 0; peek(i) != "{" && !peek(i).empty(); ++i) {
      if (peek(i + 1) == ":" && declared_.contains(std::string(peek(i)))) parameters_.emplace_back(peek(i));
    }
  }

  const Declared* find_array(std::string_view name) const {
    const auto found = declared_.find(std::string(name));
    if (found == declared_.end() || depth() == 0) return nullptr;
    const bool is_hidden = std::ranges::any_of(
        blocks_, [&](const Block& block) { return std::ranges::find(block.hidden, name) != block.hidden.end(); });
    return is_hidden ? nullptr : &found->second;
  }

  /// A block of statements begins with how many operators it has, which is known when it ends.
  void open(bool has_statements) {
    blocks_.push_back({.place = out_.size(), .has_statements = has_statements, .hidden = std::move(parameters_)});
    blocks_.back().operations = std::exchange(pending_, 0);
    parameters_.clear();
    head_ = {};
  }
  void close() {
    if (blocks_.empty()) return;
    const auto& block = blocks_.back();
    if (block.has_statements && block.operations > 0) {
      out_.insert(block.place, fmt::format("trace_operations += {}u;\n", block.operations));
    } else if (blocks_.size() > 1) {
      blocks_[blocks_.size() - 2].operations += block.operations;
    }
    blocks_.pop_back();
  }
  void count(std::string_view t) {
    static const std::set<std::string_view> kOperators{"+",  "-",  "*",  "/",  "%",  "<<", ">>", "&",  "|",  "^",
                                                       "==", "!=", "<",  ">",  "<=", ">=", "&&", "||", "+=", "-=",
                                                       "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "!"};
    static const std::set<std::string_view> kNoCalls{"if", "for", "while", "switch", "return", "loop", "case"};
    const bool is_call = peek(1) == "(" && is_word(t.front()) && !t.contains('<') && !functions_.contains(t) &&
                         !kNoCalls.contains(t) && !types_.stride(t);
    if (kOperators.contains(t) || is_call) add_operation();
  }
  void add_operation() {
    // What stands in the head of a loop is done as often as its body.
    (head_ == "for" || head_ == "while" || blocks_.empty() ? pending_ : blocks_.back().operations) += 1;
  }

  /// NAME[i], NAME[i][j] or NAME[i].x, read or written.
  Status take_access(const Declared& array) {
    const std::size_t site = kernel_->sites.size();
    kernel_->sites.push_back({.array = array.array, .stride = array.stride, .bytes = array.stride});
    add_operation();
    take();
    // What follows the brackets decides what the first of them becomes.
    const std::size_t end = bracket_end(at_);
    const auto part = types_.component(array.element);
    const bool by_part = part.has_value() && end < tokens_.size() && tokens_[end] == "[";
    TRY(take_index(by_part ? std::string("trace_first(") : fmt::format("trace({}u, ", site)));
    auto& own = kernel_->sites[site];
    if (by_part) {
      own.stride = own.bytes = *part;
      TRY(take_index(fmt::format("trace_part({}u, {}u, ", site, array.stride / *part)));
    } else if (part && peek() == "." && peek(1).size() == 1) {
      kernel_->sites[site].bytes = *part;
      kernel_->sites[site].offset = *part * static_cast<std::uint32_t>(std::string_view("xyzw").find(peek(1)[0]));
      take();
      take();
    } else if (array.element.starts_with("vec3")) {
      own.bytes = array.stride / 4 * 3;
    }
    auto& done = kernel_->sites[site];
    const auto after = peek();
    const bool is_compound = after.size() == 2 && after[1] == '=' && std::string_view("+-*/%&|^").contains(after[0]);
    done.stores = after == "=" || is_compound || after == "++" || after == "--";
    done.loads = after != "=";
    return {};
  }

  std::size_t bracket_end(std::size_t at) const {
    int open = 0;
    for (; at < tokens_.size(); ++at) {
      if (tokens_[at] == "[") ++open;
      if (tokens_[at] == "]" && --open == 0) return at + 1;
    }
    return at;
  }

  Status take_index(std::string_view call) {
    const std::size_t end = bracket_end(at_);
    take();
    out_ += call;
    out_ += "u32(";
    while (at_ + 1 < end) TRY(next());
    out_ += "))";
    take();
    return {};
  }

  /// Of a GPU with so many threads to a subgroup: the adapter's own may be fewer.
  std::string subgroup_value(std::string_view builtin) const {
    if (builtin == "subgroup_size") return fmt::format("{}u", subgroup_);
    if (builtin == "subgroup_invocation_id") return fmt::format("LANE % {}u", subgroup_);
    if (builtin == "subgroup_id") return fmt::format("LANE / {}u", subgroup_);
    return builtin == "num_subgroups" ? fmt::format("(WG + {}u) / {}u", subgroup_ - 1, subgroup_) : "";
  }

  /// The entry point becomes a function; the one that calls it knows its lane.
  Status take_entry() {
    std::string head;
    while (peek() != "fn") head += tokens_[at_++];
    at_ += 2;  // fn main
    if (tokens_[at_ - 1] != "main" || peek() != "(") return fail(ErrorCode::unsupported, "the entry point is not main");
    std::string given;
    std::string passed;
    std::string changes;
    std::string lane;
    std::string group;
    put("fn traced_main(");
    for (++at_; peek() != ")";) {
      if (peek() == ",") {
        ++at_;
        continue;
      }
      // A struct of built-in values is passed on, but for what it says of subgroups.
      if (peek(1) == ":") {
        given += fmt::format("{}: {}, ", peek(), peek(2));
        passed += fmt::format("traced_{}, ", peek());
        changes += fmt::format("var traced_{0} = {0};\n", peek());
        for (const auto& [member, builtin] : members_[peek(2)]) {
          if (builtin == "local_invocation_index") lane = fmt::format("{}.{}", peek(), member);
          if (builtin == "workgroup_id") group = fmt::format("{}.{}", peek(), member);
          const auto value = subgroup_value(builtin);
          if (!value.empty()) changes += fmt::format("traced_{}.{} = {};\n", peek(), member, value);
        }
        out_ += fmt::format("{}: {}, ", peek(), peek(2));
        at_ += 3;
        continue;
      }
      if (peek() != "@" || peek(1) != "builtin" || peek(6) != ":") {
        return fail(ErrorCode::unsupported, "a parameter of main is no built-in value");
      }
      const std::string_view builtin = peek(3);
      const std::string_view name = peek(5);
      if (const auto subgroup = subgroup_value(builtin); !subgroup.empty()) {
        passed += fmt::format("{}, ", subgroup);
      } else {
        given += fmt::format("@builtin({}) {}: {}, ", builtin, name, peek(7));
        passed += fmt::format("{}, ", name);
      }
      if (builtin == "local_invocation_index") lane = name;
      if (builtin == "workgroup_id") group = name;
      out_ += fmt::format("{}: {}, ", name, peek(7));
      at_ += 8;
    }
    take();
    if (lane.empty()) given += fmt::format("@builtin(local_invocation_index) {}: u32, ", lane = "trace_lane");
    if (group.empty()) given += fmt::format("@builtin(workgroup_id) {}: vec3<u32>, ", group = "trace_group");
    for (auto* text : {&passed, &changes}) {
      for (std::size_t i = 0; (i = text->find("LANE", i)) != std::string::npos;) text->replace(i, 4, lane);
    }
    entry_ = fmt::format(
        "{} fn main({}) {{\ntrace_begin = ({}.x * WG + {}) * (4u + 2u * TRACE_ROOM);\n{}"
        "traced_main({});\ntrace[trace_begin] = trace_count;\ntrace[trace_begin + 1u] = "
        "trace_operations;\ntrace[trace_begin + 2u] = trace_barriers;\n}}\n",
        head, given, group, lane, changes, passed);
    return {};
  }

  void write_prelude(std::uint32_t binding, std::uint32_t accesses) {
    out_ += fmt::format(R"(
const TRACE_ROOM = {}u;
@group(0) @binding({}) var<storage, read_write> trace_words: array<u32>;
var<private> trace_begin: u32;
var<private> trace_count: u32;
var<private> trace_operations: u32;
var<private> trace_barriers: u32;
var<private> trace_index: u32;
fn trace(site: u32, i: u32) -> u32 {{
  if (trace_count < TRACE_ROOM) {{
    trace_words[trace_begin + 4u + 2u * trace_count] = site;
    trace_words[trace_begin + 5u + 2u * trace_count] = i;
  }}
  trace_count += 1u;
  return i;
}}
fn trace_first(i: u32) -> u32 {{
  trace_index = i;
  return i;
}}
fn trace_part(site: u32, parts: u32, i: u32) -> u32 {{
  let whole = trace(site, trace_index * parts + i);
  return i;
}}
)",
                        accesses, binding);
    for (std::size_t at = 0; (at = entry_.find("trace[", at)) != std::string::npos;)
      entry_.replace(at, 6, "trace_words[");
    out_ += entry_;
  }

  struct Block {
    std::size_t place = 0;
    std::uint32_t operations = 0;
    bool has_statements = true;
    std::vector<std::string_view> hidden{};
  };

  std::vector<std::string_view> tokens_;
  std::uint32_t subgroup_;
  std::size_t at_ = 0;
  std::string out_;
  std::string entry_;
  TracedKernel* kernel_ = nullptr;
  Types types_;
  std::map<std::string, double> given_;  ///< overrides
  std::map<std::string, Declared> declared_;
  std::map<std::string_view, std::vector<std::pair<std::string_view, std::string_view>>> members_;  ///< name, value
  std::set<std::string_view> functions_;
  std::vector<Block> blocks_;
  std::vector<std::string_view> parameters_;
  std::string_view head_;  ///< the first word of the statement
  int parens_ = 0;
  std::uint32_t pending_ = 0;
};

}  // namespace

Result<TracedKernel> traced(const PipelineDesc& desc, std::uint32_t accesses, std::uint32_t subgroup) {
  TracedKernel kernel{.desc = desc};
  const auto binding = static_cast<std::uint32_t>(desc.bindings.size() + 1);
  TRY(Rewriter(desc.wgsl, subgroup).run(kernel, binding, accesses));
  kernel.desc.bindings.push_back(Access::read_write);
  return kernel;
}

KernelTrace read_trace(std::span<const std::uint32_t> words, std::uint32_t workgroup, std::uint32_t accesses) {
  KernelTrace trace{.workgroup = workgroup, .lanes = {}};
  for (std::size_t at = 0; at + trace_words(1, accesses) <= words.size(); at += trace_words(1, accesses)) {
    auto& lane = trace.lanes.emplace_back();
    lane.operations = words[at + 1];
    lane.barriers = words[at + 2];
    lane.all_accesses = words[at];
    for (std::size_t i = 0; i < std::min(words[at], accesses); ++i) {
      lane.accesses.push_back({words[at + 4 + 2 * i], words[at + 5 + 2 * i]});
    }
  }
  return trace;
}

}  // namespace nibble::test
