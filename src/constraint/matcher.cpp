#include "constraint/matcher.hpp"

#include <algorithm>
#include <utility>

#include "generate/sentence.hpp"

namespace nibble::constraint {
namespace {

using Kind = Grammar::Edge::Kind;

constexpr std::uint32_t kBottom = 0;   ///< the stack of nothing: the text may end
constexpr std::uint32_t kNowhere = 0;  ///< the set of no stacks
constexpr std::uint32_t kUnknown = 0xffffffff;
// Beyond these, a grammar is too complex.
constexpr std::size_t kMostStacksOfSet = 4096;
constexpr std::size_t kMostStacks = std::size_t{1} << 21;
constexpr std::size_t kMostNext = std::size_t{1} << 24;
// Beyond these, what is known is forgotten between two tokens.
constexpr std::size_t kKeptStacks = std::size_t{1} << 17;
constexpr std::size_t kKeptNext = std::size_t{1} << 18;

}  // namespace

Result<Matcher> Matcher::make(const Vocabulary& vocabulary, Grammar grammar) {
  Matcher made(vocabulary, std::move(grammar));
  if (auto status = made.find_allowed(); !status) return std::unexpected(std::move(status).error());
  return made;
}

Matcher::Matcher(const Vocabulary& vocabulary, Grammar grammar)
    : vocabulary_(&vocabulary), grammar_(std::move(grammar)), is_end_(grammar_.nodes.size()) {
  for (const auto& rule : grammar_.rules) is_end_[rule.end] = true;
  find_classes();
  std::size_t longest = 0;
  for (const auto& entry : vocabulary.order()) longest = std::max(longest, vocabulary.text_of(entry.id).size());
  path_.resize(longest + 1);
  stacks_.push_back({});
  ends_.push_back(0);
  next_.resize(class_count_, kNowhere);
  open_.push_back(pushed(grammar_.rules[grammar_.root].start, kBottom));
  now_ = closed();
}

void Matcher::find_classes() {
  std::array<bool, 257> begins{};
  for (const auto& edges : grammar_.nodes) {
    for (const auto& edge : edges) {
      if (edge.kind != Kind::byte) continue;
      begins[edge.low] = true;
      begins[edge.high + 1U] = true;
    }
  }
  std::uint8_t last = 0;
  for (std::size_t byte = 1; byte < classes_.size(); ++byte) {
    if (begins[byte]) ++last;
    classes_[byte] = last;
  }
  class_count_ = last + 1U;
}

std::uint32_t Matcher::pushed(Grammar::Node top, std::uint32_t below) {
  const auto added = static_cast<std::uint32_t>(stacks_.size());
  const auto number = stack_numbers_.find_or_add(mixed(mixed(1, top), below), added, [&](std::uint32_t stack) {
    return stacks_[stack].top == top && stacks_[stack].below == below;
  });
  if (number == added) stacks_.push_back({top, below});
  return number;
}

/// The set of the stacks in open_, as far as they can read a byte, and of all to which they lead without reading.
Matcher::Set Matcher::closed() {
  found_.clear();
  ++round_;
  while (!open_.empty()) {
    const auto stack = open_.back();
    open_.pop_back();
    seen_.resize(stacks_.size());
    if (std::exchange(seen_[stack], round_) == round_) continue;
    if (stacks_.size() > kMostStacks || found_.size() > kMostStacksOfSet) {
      is_too_complex_ = true;
      open_.clear();
      return kNowhere;
    }
    if (stack == kBottom) {
      found_.push_back(stack);
      continue;
    }
    const auto [top, below] = stacks_[stack];
    bool reads = false;
    for (const auto& edge : grammar_.nodes[top]) {
      if (edge.kind == Kind::byte) reads = true;
      if (edge.kind == Kind::nothing) open_.push_back(pushed(edge.to, below));
      if (edge.kind != Kind::rule) continue;
      // Whoever would only return to return again need not: else texts would pile up what repeats itself.
      const bool is_last = is_end_[edge.to] && grammar_.nodes[edge.to].empty();
      open_.push_back(pushed(grammar_.rules[edge.rule].start, is_last ? below : pushed(edge.to, below)));
    }
    if (is_end_[top]) open_.push_back(below);
    if (reads) found_.push_back(stack);
  }
  std::ranges::make_heap(found_);
  std::ranges::sort_heap(found_);
  std::uint32_t hash = 0;
  for (const auto stack : found_) hash = mixed(hash, stack);
  if (found_.empty()) return kNowhere;
  const auto added = static_cast<Set>(ends_.size());
  const auto number =
      set_numbers_.find_or_add(hash, added, [&](Set set) { return std::ranges::equal(stacks_of(set), found_); });
  if (number == added) {
    members_.insert(members_.end(), found_.begin(), found_.end());
    ends_.push_back(members_.size());
    next_.resize(next_.size() + class_count_, kUnknown);
    is_too_complex_ = is_too_complex_ || next_.size() > kMostNext;
  }
  return number;
}

std::span<const std::uint32_t> Matcher::stacks_of(Set set) const {
  const auto begin = set == 0 ? 0 : ends_[set - 1];
  return std::span(members_).subspan(begin, ends_[set] - begin);
}

bool Matcher::may_end(Set set) const { return set != kNowhere && stacks_of(set).front() == kBottom; }

Matcher::Set Matcher::step(Set set, std::uint8_t byte) {
  const auto place = set * class_count_ + classes_[byte];
  if (next_[place] != kUnknown || is_too_complex_) return next_[place] == kUnknown ? kNowhere : next_[place];
  for (const auto stack : stacks_of(set)) {
    const auto [top, below] = stacks_[stack];
    if (stack == kBottom) continue;
    for (const auto& edge : grammar_.nodes[top]) {
      const bool reads = edge.kind == Kind::byte && byte >= edge.low && byte <= edge.high;
      if (reads) open_.push_back(pushed(edge.to, below));
    }
  }
  const auto next = closed();
  next_[place] = next;
  return next;
}

Status Matcher::take(std::int32_t token) {
  const auto id = static_cast<std::size_t>(token);
  if (token < 0 || id >= vocabulary_->size() || (allowed_[id / 32] >> id % 32 & 1U) == 0) {
    return generate::refuse({"the grammar does not allow token ", token, " here"});
  }
  if (std::ranges::find(vocabulary_->stop_ids(), token) != vocabulary_->stop_ids().end()) {
    now_ = kNowhere;
    is_done_ = true;
    std::ranges::fill(allowed_, 0U);
    return {};
  }
  const auto before = now_;
  for (const char byte : vocabulary_->text_of(id)) now_ = step(now_, static_cast<std::uint8_t>(byte));
  if (now_ == before) return {};  // as within a text of any length
  if (stacks_.size() > kKeptStacks || next_.size() > kKeptNext) forget_others();
  return find_allowed();
}

/// All but where the text is now.
void Matcher::forget_others() {
  std::vector<std::vector<Grammar::Node>> kept;
  for (auto stack : stacks_of(now_)) {
    kept.emplace_back();
    for (; stack != kBottom; stack = stacks_[stack].below) kept.back().push_back(stacks_[stack].top);
  }
  stacks_.resize(1);
  stack_numbers_.clear();
  members_.clear();
  ends_.resize(1);
  set_numbers_.clear();
  next_.resize(class_count_);
  seen_.clear();
  for (const auto& tops : kept) {
    auto stack = kBottom;
    for (auto top = tops.rbegin(); top != tops.rend(); ++top) stack = pushed(*top, stack);
    open_.push_back(stack);
  }
  now_ = closed();
}

Status Matcher::find_allowed() {
  allowed_.assign((vocabulary_->size() + 31) / 32, 0);
  const auto allow = [&](std::size_t id) { allowed_[id / 32] |= 1U << id % 32; };
  bool has_text = false;
  path_[0] = now_;
  std::size_t read = 0;  // how many bytes of the token before could be read
  for (const auto& [id, shared] : vocabulary_->order()) {
    if (shared > read) continue;  // it begins with what could not be
    const auto text = vocabulary_->text_of(id);
    for (read = shared; read < text.size(); ++read) {
      path_[read + 1] = step(path_[read], static_cast<std::uint8_t>(text[read]));
      if (path_[read + 1] == kNowhere) break;
    }
    if (read < text.size()) continue;
    allow(id);
    has_text = true;
  }
  if (is_too_complex_) return generate::refuse({"the grammar is too complex for this text"});
  const bool is_end = may_end(now_);
  if (!has_text && !is_end)
    return generate::refuse({"no token of this model can go on with the text as the grammar wants it"});
  for (const auto id : vocabulary_->stop_ids()) {
    if (is_end && id >= 0 && static_cast<std::size_t>(id) < vocabulary_->size()) allow(static_cast<std::size_t>(id));
  }
  is_done_ = !has_text;
  return {};
}

}  // namespace nibble::constraint
