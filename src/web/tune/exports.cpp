#include "web/tune/exports.hpp"

#include "web/instance.hpp"
#include "web/tune/tuner.hpp"

namespace nibble::web {
namespace {

std::unique_ptr<Tuner>& the_tuner() {
  static auto& tuner = *new std::unique_ptr<Tuner>;
  return tuner;
}

/// That of the last cases.
Result<Tuner*> tuner() {
  if (the_tuner() == nullptr) return fail(ErrorCode::invalid_argument, "no cases are measured");
  return the_tuner().get();
}

Result<const wire::TuningCases*> cases(double milliseconds) {
  the_tuner().reset();
  TRY_ASSIGN(const auto boundary, program().boundary());
  the_tuner() = std::make_unique<Tuner>(boundary->plan(), program().options(), milliseconds);
  return the_tuner()->cases();
}

Result<const wire::TuningBench*> bench(std::size_t index) {
  TRY_ASSIGN(auto* one, tuner());
  return one->bench(index);
}

Result<std::uint32_t> session() {
  TRY_ASSIGN(const auto* one, tuner());
  TRY_ASSIGN(auto boundary, one->boundary());
  return new_session(std::move(boundary));
}

Status force(Session& session, std::size_t variant) {
  TRY_ASSIGN(const auto* one, tuner());
  TRY_ASSIGN(const auto boundary, one->boundary());
  // Other plans have not all variants.
  if (&session.boundary() != boundary.get()) return fail(ErrorCode::invalid_argument, "the session is of another plan");
  TRY_ASSIGN(const auto chosen, one->variant(variant));
  session.force(chosen.choice, chosen.variant);
  return {};
}

Result<std::uint32_t> agree(std::size_t output, std::span<const std::byte> a, std::span<const std::byte> b) {
  TRY_ASSIGN(const auto* one, tuner());
  TRY_ASSIGN(const bool is_same, one->agree(output, a, b));
  return is_same ? 1 : 2;
}

Status race(std::span<const double> microseconds, double budget) {
  TRY_ASSIGN(auto* one, tuner());
  return one->race(microseconds, budget);
}

Result<const wire::TuningTurn*> next(double microseconds) {
  TRY_ASSIGN(auto* one, tuner());
  return one->next(microseconds);
}

Result<const wire::TunedRows*> rows() {
  TRY_ASSIGN(auto* one, tuner());
  return one->rows();
}

}  // namespace

const wire::TuningCases* nibble_tuning_cases(double milliseconds) noexcept { return give(cases(milliseconds)); }

const wire::TuningBench* nibble_tuning_bench(std::uint32_t index) noexcept { return give(bench(index)); }

std::uint32_t nibble_tuning_session() noexcept { return give(session()); }

std::uint32_t nibble_tuning_force(std::uint32_t session, std::uint32_t variant) noexcept {
  auto* one = find(session);
  return one == nullptr ? 0 : give(force(*one, variant));
}

std::uint32_t nibble_tuning_agree(std::uint32_t output, const std::byte* a, const std::byte* b,
                                  std::uint32_t bytes) noexcept {
  return give(agree(output, {a, bytes}, {b, bytes}));
}

std::uint32_t nibble_tuning_race(const double* microseconds, std::uint32_t count, double budget) noexcept {
  return give(race({microseconds, count}, budget));
}

const wire::TuningTurn* nibble_tuning_next(double microseconds) noexcept { return give(next(microseconds)); }

const wire::TunedRows* nibble_tuning_rows() noexcept { return give(rows()); }

}  // namespace nibble::web
