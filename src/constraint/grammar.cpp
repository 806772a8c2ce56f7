#include "constraint/grammar.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "constraint/grammar_shape.hpp"
#include "constraint/grammar_text.hpp"
#include "constraint/numbering.hpp"

namespace nibble::constraint {
namespace {

using Node = Grammar::Node;
using Edge = Grammar::Edge;
using Kind = Edge::Kind;

constexpr std::size_t kMostNodes = 400000;
constexpr int kMostDepth = 200;

struct Range {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

/// A part of a graph, from one node to another.
struct Fragment {
  Node start = 0;
  Node end = 0;
};

std::vector<Range> others_than(std::vector<Range> ranges) {
  // A heap, because its code is small.
  std::ranges::make_heap(ranges, {}, &Range::low);
  std::ranges::sort_heap(ranges, {}, &Range::low);
  std::vector<Range> others;
  std::uint32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) others.push_back({next, low - 1});
    next = std::max(next, high + 1);
  }
  if (next <= kLastCharacter) others.push_back({next, kLastCharacter});
  return others;
}

/// Makes graphs of a text. After the first error nothing of them counts.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Grammar> run() {
    for (text_.skip(); !text_.is_at_end() && !text_.has_failed(); text_.skip()) rule();
    if (!text_.has_failed()) link();
    if (!text_.has_failed()) finish();
    if (text_.has_failed()) return std::unexpected(*text_.error());
    return std::move(grammar_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// What a rule is called, where that is read first, and which rule it is.
  struct Name {
    std::string_view text;
    std::size_t at = 0;
    std::uint32_t rule = kNone;
  };

  Node node() {
    if (grammar_.nodes.size() >= kMostNodes)
      return text_.fail({"the grammar has more than ", kMostNodes, " places"}), 0;
    grammar_.nodes.emplace_back();
    return static_cast<Node>(grammar_.nodes.size() - 1);
  }

  Fragment fragment() {
    const auto start = node();
    return {start, node()};
  }

  void connect(Node from, Node to) { add(from, {.to = to}); }
  void add(Node from, Edge edge) {
    if (!text_.has_failed()) grammar_.nodes[from].push_back(edge);
  }

  /// The number of the name that is read here.
  std::uint32_t name() {
    const auto at = text_.place();
    const auto text = text_.take_name();
    std::uint32_t hash = 0;
    for (const char c : text) hash = mixed(hash, static_cast<unsigned char>(c));
    const auto added = static_cast<std::uint32_t>(names_.size());
    const auto number = numbers_.find_or_add(hash, added, [&](auto each) { return names_[each].text == text; });
    if (number == added) names_.push_back({text, at});
    return number;
  }

  void rule() {
    if (!text_.is_at_rule()) return text_.fail_here("a rule begins with its name and ::=");
    auto& named = names_[name()];
    if (named.rule != kNone) return text_.fail_here("there is a rule of this name already");
    named.rule = static_cast<std::uint32_t>(grammar_.rules.size());
    text_.skip();
    text_.take("::=");
    const auto [start, end] = alternatives(0);
    grammar_.rules.push_back({start, end});
    if (text_.skip(); !text_.is_at_end() && !text_.is_at_rule()) text_.fail_here("a rule cannot go on like this");
  }

  Fragment alternatives(int depth) {
    if (depth > kMostDepth) text_.fail_here("parentheses nest too deeply");
    const auto made = fragment();
    do {
      if (text_.has_failed()) break;
      const auto each = sequence(depth);
      connect(made.start, each.start);
      connect(each.end, made.end);
      text_.skip();
    } while (text_.take("|"));
    return made;
  }

  Fragment sequence(int depth) {
    const auto start = node();
    auto end = start;
    for (text_.skip(); !text_.has_failed() && is_at_element(); text_.skip()) {
      const auto each = repeated(depth);
      connect(end, each.start);
      end = each.end;
    }
    return {start, end};
  }

  bool is_at_element() {
    const char c = text_.peek();
    return c == '"' || c == '[' || c == '(' || c == '.' || (text_.is_at_name() && !text_.is_at_rule());
  }

  Fragment repeated(int depth) {
    const auto first = grammar_.nodes.size();
    auto made = element(depth);
    for (text_.skip(); !text_.has_failed(); text_.skip()) {
      const auto count = counted();
      if (!count) break;
      made = times(made, first, *count);
    }
    return made;
  }

  /// How often something comes.
  struct Count {
    std::size_t least = 0;
    std::optional<std::size_t> most;
  };

  std::optional<Count> counted() {
    if (text_.take("*")) return Count{};
    if (text_.take("+")) return Count{1, {}};
    if (text_.take("?")) return Count{0, 1};
    if (!text_.take("{")) return {};
    text_.skip();
    const auto least = text_.take_number(kMostNodes);
    auto most = least;
    if (text_.skip(); text_.take(",")) {
      text_.skip();
      most = text_.take_number(kMostNodes);
    }
    text_.skip();
    if (!least || !text_.take("}")) text_.fail_here("how often something comes is written {2}, {2,} or {2,5}");
    if (least && most && *most < *least) text_.fail_here("something shall come more often than it may");
    return Count{least.value_or(0), most};
  }

  /// What was made from the node `first` on, and copies of it. Its edges lead nowhere else yet.
  Fragment times(Fragment made, std::size_t first, Count count) {
    const auto size = grammar_.nodes.size() - first;
    std::vector<Fragment> parts;
    for (const auto copies = count.most.value_or(std::max<std::size_t>(count.least, 1)); parts.size() < copies;) {
      parts.push_back(parts.empty() ? made : copy(made, first, size));
      if (text_.has_failed()) return made;
    }
    const auto all = fragment();
    auto end = all.start;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i >= count.least) connect(end, all.end);
      connect(end, parts[i].start);
      end = parts[i].end;
    }
    if (!count.most) connect(end, parts.back().start);
    connect(end, all.end);
    return all;
  }

  Fragment copy(Fragment made, std::size_t first, std::size_t size) {
    const auto by = static_cast<Node>(grammar_.nodes.size() - first);
    for (std::size_t i = first; i < first + size; ++i) {
      if (node(); text_.has_failed()) return made;
      grammar_.nodes.back() = grammar_.nodes[i];
      for (auto& edge : grammar_.nodes.back()) edge.to += by;
    }
    return {made.start + by, made.end + by};
  }

  Fragment element(int depth) {
    if (text_.take("(")) {
      const auto made = alternatives(depth + 1);
      if (!text_.take(")")) text_.fail_here("a parenthesis is not closed");
      return made;
    }
    const auto made = fragment();
    if (text_.take("\"")) {
      auto end = made.start;
      while (!text_.has_failed() && !text_.take("\"")) {
        for (const char byte : encoded(text_.take_character())) end = read(end, static_cast<unsigned char>(byte));
      }
      connect(end, made.end);
    } else if (text_.take("[")) {
      read(made, characters());
    } else if (text_.take(".")) {
      read(made, others_than({}));
    } else {
      add(made.start, {.kind = Kind::rule, .rule = name(), .to = made.end});
    }
    return made;
  }

  std::vector<Range> characters() {
    const bool is_negated = text_.take("^");
    std::vector<Range> ranges;
    while (!text_.has_failed() && !text_.take("]")) {
      const auto low = text_.take_character();
      const bool is_range = text_.peek() == '-' && !text_.is_next("-]") && text_.take("-");
      ranges.push_back({low, is_range ? text_.take_character() : low});
      if (ranges.back().high < low) text_.fail_here("a class has a range from a later character to an earlier one");
    }
    return is_negated ? others_than(std::move(ranges)) : ranges;
  }

  Node read(Node from, std::uint8_t byte) {
    const auto to = node();
    add(from, {.kind = Kind::byte, .low = byte, .high = byte, .to = to});
    return to;
  }

  void read(Fragment made, std::span<const Range> ranges) {
    // Characters of as many bytes each, and no surrogates.
    constexpr std::array<Range, 5> kKinds{
        {{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, kLastCharacter}}};
    for (const auto& range : ranges) {
      for (const auto& kind : kKinds) {
        const auto low = std::max(range.low, kind.low);
        const auto high = std::min(range.high, kind.high);
        if (low <= high) read(made, encoded(low), encoded(high));
      }
    }
  }

  /// The characters from one to another, by their bytes: those that share the first bytes of the one, those that share
  /// the first of the other, and those between, whose later bytes may be any.
  void read(Fragment made, std::string_view low, std::string_view high) {
    if (text_.has_failed()) return;
    auto first = static_cast<std::uint8_t>(low.front());
    auto last = static_cast<std::uint8_t>(high.front());
    if (low.size() == 1) return add(made.start, {.kind = Kind::byte, .low = first, .high = last, .to = made.end});
    const auto lows = low.substr(1);
    const auto highs = high.substr(1);
    const std::string lowest(lows.size(), '\x80');
    const std::string highest(lows.size(), '\xbf');
    if (first == last) return read({read(made.start, first), made.end}, lows, highs);
    if (lows != lowest) read({read(made.start, first++), made.end}, lows, highest);
    if (highs != highest) read({read(made.start, last--), made.end}, lowest, highs);
    if (first > last) return;
    const auto middle = node();
    add(made.start, {.kind = Kind::byte, .low = first, .high = last, .to = middle});
    read({middle, made.end}, lowest, highest);
  }

  /// Puts the numbers of rules in the place of those of their names.
  void link() {
    const auto root = std::ranges::find(names_, "root", &Name::text);
    if (root == names_.end() || root->rule == kNone) {
      return text_.fail({"the grammar has no rule 'root', which is what the text must be"});
    }
    grammar_.root = root->rule;
    for (const auto& [text, at, rule] : names_) {
      if (rule == kNone) return text_.fail_at(at, {"there is no rule '", text, "'"});
    }
    for (auto& edges : grammar_.nodes) {
      for (auto& edge : edges) {
        if (edge.kind == Kind::rule) edge.rule = names_[edge.rule].rule;
      }
    }
  }

  void finish() {
    shorten(grammar_);
    const auto rule = find_endless_rule(grammar_);
    if (!rule) return;
    const auto name = std::ranges::find(names_, *rule, &Name::rule);
    text_.fail({"the rule '", name->text, "' of the grammar begins with itself: let it begin with something else"});
  }

  GrammarText text_;
  Grammar grammar_;
  std::vector<Name> names_;
  Numbering numbers_;
};

}  // namespace

Result<Grammar> Grammar::parse(std::string_view text) { return Parser(text).run(); }

}  // namespace nibble::constraint
