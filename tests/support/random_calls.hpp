// Calls of random shapes: whatever a caller passes, a plan has all that the call needs.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "support/plan_checks.hpp"

namespace nibble::test {

class RandomCalls {
 public:
  RandomCalls(std::shared_ptr<const Plan> plan, std::uint32_t seed)
      : plan_(plan), stepper_(std::move(plan)), random_(seed) {}

  /// Asked of every call that is not refused: a bug, or "".
  std::function<std::string(const Stepper&)> check;

  /// The bug that the first call or one of `count` random ones shows, if there is one. A call may be refused, but never
  /// because of what was not planned.
  std::string find_bug(int count) {
    std::string bug = update();
    for (int i = 0; i < count && bug.empty(); ++i) {
      set_inputs();
      bug = update();
    }
    return bug.empty() ? differs_from_first_call() : bug;
  }

 private:
  std::string update() {
    is_refused_ = true;
    const auto status = stepper_.update();
    if (!status) return status.error().code == ErrorCode::internal ? status.error().message : "";
    is_refused_ = false;
    if (auto wrong = wrong_piece(stepper_); !wrong.empty()) return wrong;
    if (auto wrong = wrong_binding(stepper_); !wrong.empty() || !check) return wrong;
    return check(stepper_);
  }

  /// A call does what it would do as the first one of a session: nothing of the calls before is left.
  std::string differs_from_first_call() {
    if (is_refused_) return {};
    Stepper first(plan_);
    for (const auto& set : inputs_) set(first);
    if (const auto status = first.update(); !status) return "only as a first call: " + status.error().message;
    const auto all = stepper_.dispatches();
    if (all.size() != first.dispatches().size()) return "a later call has another number of dispatches";
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Dispatch& a = *all[i];
      const Dispatch& b = *first.dispatches()[i];
      const bool same =
          a.pipeline == b.pipeline && a.grid == b.grid && a.bindings == b.bindings &&
          std::ranges::equal(std::span(a.params).first(a.params_bytes), std::span(b.params).first(b.params_bytes));
      if (!same) return fmt::format("{}: a later call differs", plan_->graph().nodes[a.node].op);
    }
    return {};
  }

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  /// Dimensions with the same bound are mostly one dimension of the model, and many are not dynamic at all.
  std::int64_t size(std::int64_t bound) {
    const auto known = std::ranges::find(sizes_, bound, &std::pair<std::int64_t, std::int64_t>::first);
    if (known != sizes_.end() && draw(0, 7) != 0) return known->second;
    std::int64_t drawn = bound;
    switch (draw(0, 4)) {
      case 0: drawn = draw(0, bound); break;
      case 1: drawn = draw(0, std::min<std::int64_t>(bound, 8)); break;
      case 2: drawn = draw(0, bound) / 4 * 4; break;
      default: break;
    }
    sizes_.emplace_back(bound, drawn);
    return drawn;
  }

  void set_inputs() {
    const Plan& plan = stepper_.plan();
    const auto& inputs = plan.layout().inputs;
    sizes_.clear();
    inputs_.clear();
    elements_.assign(inputs.size(), {});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_symint) {
        const bool is_size = !sizes_.empty() && draw(0, 1) != 0;
        const auto value = is_size ? sizes_[draw(0, std::ssize(sizes_) - 1)].second : draw(-1, 300);
        inputs_.emplace_back([i, value](Stepper& stepper) { (void)stepper.set_int(i, value); });
        continue;
      }
      Shape shape = inputs[i].bound;
      if (!plan.graph().tensor(inputs[i].value)->fixed) {
        for (std::size_t d = 0; d < shape.rank(); ++d) shape[d] = size(shape[d]);
      }
      inputs_.emplace_back([i, shape](Stepper& stepper) { (void)stepper.set_shape(i, shape); });
      if (!inputs[i].host_read) continue;
      if (const auto count = Size::of(shape); count.fits(kMostElements)) elements_[i].resize(count.unchecked());
      for (auto& element : elements_[i]) element = static_cast<std::int32_t>(draw(-1, 300));
      inputs_.emplace_back([this, i](Stepper& stepper) { stepper.set_host_data(i, elements_[i]); });
    }
    for (const auto& set : inputs_) set(stepper_);
  }

  static constexpr std::uint64_t kMostElements = 4096;

  std::shared_ptr<const Plan> plan_;
  Stepper stepper_;
  std::vector<std::function<void(Stepper&)>> inputs_;  ///< what sets them, for this call
  bool is_refused_ = true;
  std::minstd_rand random_;
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes_;  ///< by bound, of this call
  std::vector<std::vector<std::int32_t>> elements_;           ///< per input
};

}  // namespace nibble::test
