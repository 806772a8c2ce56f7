// Calls of random shapes: whatever a caller passes, a plan has all that the call needs.
#pragma once

#include <algorithm>
#include <random>
#include <utility>

#include "support/plan_checks.hpp"

namespace nibble::test {

class RandomCalls {
 public:
  RandomCalls(std::shared_ptr<const Plan> plan, std::uint32_t seed) : stepper_(std::move(plan)), random_(seed) {}

  /// The bug that the first call or one of `count` random ones shows, if there is one. A call may be refused, but never
  /// because of what was not planned.
  std::string find_bug(int count) {
    std::string bug = update();
    for (int i = 0; i < count && bug.empty(); ++i) {
      set_inputs();
      bug = update();
    }
    return bug;
  }

 private:
  std::string update() {
    const auto status = stepper_.update();
    if (!status) return status.error().code == ErrorCode::internal ? status.error().message : "";
    return wrong_binding(stepper_);
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
    elements_.assign(inputs.size(), {});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_symint) {
        const bool is_size = !sizes_.empty() && draw(0, 1) != 0;
        (void)stepper_.set_int(i, is_size ? sizes_[draw(0, std::ssize(sizes_) - 1)].second : draw(-1, 300));
        continue;
      }
      Shape shape = inputs[i].bound;
      if (!plan.graph().tensor(inputs[i].value)->fixed) {
        for (std::size_t d = 0; d < shape.rank(); ++d) shape[d] = size(shape[d]);
      }
      (void)stepper_.set_shape(i, shape);
      if (!inputs[i].host_read) continue;
      if (const auto count = Size::of(shape); count.fits(kMostElements)) elements_[i].resize(count.unchecked());
      for (auto& element : elements_[i]) element = static_cast<std::int32_t>(draw(-1, 300));
      stepper_.set_host_data(i, elements_[i]);
    }
  }

  static constexpr std::uint64_t kMostElements = 4096;

  Stepper stepper_;
  std::minstd_rand random_;
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes_;  ///< by bound, of this call
  std::vector<std::vector<std::int32_t>> elements_;           ///< per input
};

}  // namespace nibble::test
