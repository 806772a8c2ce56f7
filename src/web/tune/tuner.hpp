// The planner's part of a tuner: what there is to measure, and what follows from it. TypeScript has the GPU and the
// clock.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plan/tuning_race.hpp"
#include "web/records.hpp"

namespace nibble::web {

class Tuner {
 public:
  /// Of a plan that was made with these options; what there is to measure in it is searched for so long at most.
  Tuner(std::shared_ptr<const Plan> plan, Options options, double search_ms);

  const wire::TuningCases* cases() const { return &cases_record_; }
  /// The node of a case by itself, and the inputs of its call. What follows is about this case.
  Result<const wire::TuningBench*> bench(std::size_t index);
  Result<std::shared_ptr<const Boundary>> boundary() const;
  /// The choice of the case, and its variant of this number in the list of the case.
  Result<Stepper::Chosen> variant(std::size_t number) const;
  /// Whether two variants gave the same for an output.
  Result<bool> agree(std::size_t output, std::span<const std::byte> a, std::span<const std::byte> b) const;
  /// Begins to compare variants. `microseconds`: of each variant of the case, roughly; below 0 if it cannot be chosen.
  Status race(std::span<const double> microseconds, double budget);
  /// Takes what the last turn took, below 0 if there was none, and says what to measure now.
  Result<const wire::TuningTurn*> next(double microseconds);
  const wire::TunedRows* rows();

 private:
  const TuningCase* current() const { return index_ < found_.cases.size() ? &found_.cases[index_] : nullptr; }

  std::shared_ptr<const Plan> plan_;
  Options options_;
  TuningCases found_;
  std::vector<wire::TuningCase> cases_;
  std::deque<std::vector<wire::Text>> names_;
  wire::TuningCases cases_record_;

  std::size_t index_ = static_cast<std::size_t>(-1);
  std::shared_ptr<const Boundary> boundary_;
  Program no_program_;
  std::unique_ptr<LayoutRecords> layout_;
  std::vector<wire::TakenInput> inputs_;
  wire::TuningBench bench_;

  std::optional<Race> race_;
  wire::TuningTurn turn_;
  TuningTimes times_;

  std::vector<TunedRow> tuned_;
  std::deque<std::vector<wire::VariantTime>> variant_times_;
  std::vector<wire::TunedRow> rows_;
  wire::TunedRows rows_record_;
};

}  // namespace nibble::web
