#include "web/tune/tuner.hpp"

#include <algorithm>
#include <ctime>

#include "ops/registry.hpp"
#include "plan/alone.hpp"
#include "plan/live_rows.hpp"
#include "plan/tuning_data.hpp"

namespace nibble::web {
namespace {

Error no_case() { return {ErrorCode::invalid_argument, "no case is measured"}; }

std::span<const wire::Text> texts(const auto& from, std::deque<std::vector<wire::Text>>& to) {
  auto& list = to.emplace_back();
  for (const auto& one : from) list.emplace_back(std::string_view(one));
  return list;
}

double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// When the search ends, by that clock: what it asks is a plain function.
double& search_end() {
  static double end = 0;
  return end;
}

TuningCases find_within(const std::shared_ptr<const Plan>& plan, double milliseconds) {
  search_end() = now_ms() + milliseconds;
  return find_cases(plan, [] { return !(now_ms() < search_end()); });
}

}  // namespace

Tuner::Tuner(std::shared_ptr<const Plan> plan, Options options, double search_ms)
    : plan_(std::move(plan)), options_(std::move(options)), found_(find_within(plan_, search_ms)) {
  for (const auto& one : found_.cases) {
    const Choice& choice = *one.point.choice;
    std::vector<std::string_view> variants;
    for (const auto v : one.variants) variants.push_back(choice.variants[v].name);
    cases_.push_back({.node = one.node,
                      .op = plan_->graph().nodes[one.node].name(),
                      .choice = choice.name,
                      .variants = texts(variants, names_)});
  }
  cases_record_ = {.cases = std::span<const wire::TuningCase>(cases_), .is_complete = found_.is_complete};
}

Result<const wire::TuningBench*> Tuner::bench(std::size_t index) {
  race_.reset();
  if (index >= found_.cases.size()) return std::unexpected(no_such("case", index));
  const auto& one = found_.cases[index];
  if (const auto* before = current(); before == nullptr || before->node != one.node) {
    index_ = static_cast<std::size_t>(-1);
    TRY_ASSIGN(auto plan, plan_alone(*plan_, one.node, options_, ops::registry()));
    auto signature = signature_of(plan->graph());
    boundary_ = std::make_shared<const Boundary>(std::move(signature), std::move(plan));
    layout_ = std::make_unique<LayoutRecords>();
    const auto by_rows = counts_by_rows(*boundary_->plan());
    TRY_ASSIGN(const auto* layout, layout_->fill(*boundary_, no_program_, by_rows));
    bench_.layout = *layout;
  }
  index_ = index;
  const auto& call = found_.calls[one.call];
  inputs_.clear();
  for (const auto& input : boundary_->plan()->layout().inputs) {
    auto& record = inputs_.emplace_back();
    if (input.is_symint) {
      record.integer = call.live.ints[input.value];
    } else {
      record.shape = shape_record(call.live.shapes[input.value]);
    }
  }
  bench_.inputs = std::span<const wire::TakenInput>(inputs_);
  bench_.integer = static_cast<std::uint32_t>(call.integer);
  return &bench_;
}

Result<std::shared_ptr<const Boundary>> Tuner::boundary() const {
  if (current() == nullptr) return std::unexpected(no_case());
  return boundary_;
}

Result<Stepper::Chosen> Tuner::variant(std::size_t number) const {
  const auto* one = current();
  if (one == nullptr) return std::unexpected(no_case());
  if (number >= one->variants.size()) return std::unexpected(no_such("variant", number));
  return Stepper::Chosen{.choice = one->point.choice, .variant = one->variants[number]};
}

Result<bool> Tuner::agree(std::size_t output, std::span<const std::byte> a, std::span<const std::byte> b) const {
  const auto* one = current();
  if (one == nullptr) return std::unexpected(no_case());
  const auto& outputs = boundary_->plan()->layout().outputs;
  if (output >= outputs.size()) return std::unexpected(no_such("output", output));
  return nibble::agree(outputs[output].staging, a, b,
                       tolerance_of(*one->point.choice, outputs[output].dtype, boundary_->plan()->profile()));
}

Status Tuner::race(std::span<const double> microseconds, double budget) {
  const auto* one = current();
  if (one == nullptr) return std::unexpected(no_case());
  if (microseconds.size() != one->variants.size()) return std::unexpected(no_such("variant", microseconds.size()));
  std::vector<Race::Racer> racers;
  for (std::size_t i = 0; i < microseconds.size(); ++i) {
    if (microseconds[i] >= 0) racers.push_back({one->variants[i], microseconds[i]});
  }
  // The others are compared with the first.
  if (!(microseconds[0] >= 0)) racers.clear();
  race_.emplace(racers, budget);
  return {};
}

Result<const wire::TuningTurn*> Tuner::next(double microseconds) {
  if (!race_) return std::unexpected(no_case());
  if (microseconds >= 0) race_->add(microseconds);
  const auto turn = race_->next();
  turn_ = {.is_done = !turn};
  if (turn) {
    const auto& variants = current()->variants;
    turn_.variant = static_cast<std::uint32_t>(std::ranges::find(variants, turn->variant) - variants.begin());
    turn_.times = turn->times;
    return &turn_;
  }
  auto times = race_->times();
  race_.reset();
  if (!times.empty()) times_.add(*current(), plan_->graph().nodes[current()->node].name(), std::move(times));
  return &turn_;
}

const wire::TunedRows* Tuner::rows() {
  tuned_ = times_.rows();
  rows_.clear();
  for (const auto& one : tuned_) {
    auto& times = variant_times_.emplace_back();
    for (const auto& [variant, microseconds] : one.times) {
      times.push_back({.variant = std::string_view(variant), .microseconds = microseconds});
    }
    const bool has_depth = one.row.max_depth != TuningRow().max_depth;
    rows_.push_back({.choice = std::string_view(one.row.choice),
                     .variant = std::string_view(one.row.variant),
                     .rows = {one.row.min_rows, one.row.max_rows},
                     .width = {one.row.min_width, one.row.max_width},
                     .has_depth = has_depth,
                     .depth = {has_depth ? one.row.min_depth : 0, has_depth ? one.row.max_depth : 0},
                     .traits = one.row.traits.value_or(0),
                     .before = std::string_view(one.before),
                     .ops = texts(one.ops, names_),
                     .times = std::span<const wire::VariantTime>(times)});
  }
  rows_record_.rows = std::span<const wire::TunedRow>(rows_);
  return &rows_record_;
}

}  // namespace nibble::web
