// What the tuner's module, tune.wasm, offers beside all that web/exports.hpp has.
#pragma once

#include "web/exports.hpp"

namespace nibble::web {

/// What there is to measure in the plan, as far as it is found in so many milliseconds. Then: its cases one by one,
/// each with a session of its node alone.
NIBBLE_WASM_EXPORT(nibble_tuning_cases) const wire::TuningCases* nibble_tuning_cases(double milliseconds) noexcept;
NIBBLE_WASM_EXPORT(nibble_tuning_bench) const wire::TuningBench* nibble_tuning_bench(std::uint32_t index) noexcept;
NIBBLE_WASM_EXPORT(nibble_tuning_session) std::uint32_t nibble_tuning_session() noexcept;
/// From its next update on, the session takes this one of the case's variants.
NIBBLE_WASM_EXPORT(nibble_tuning_force)
std::uint32_t nibble_tuning_force(std::uint32_t session, std::uint32_t variant) noexcept;
/// 1 if two variants gave the same for an output, 2 if not.
NIBBLE_WASM_EXPORT(nibble_tuning_agree)
std::uint32_t nibble_tuning_agree(std::uint32_t output, const std::byte* a, const std::byte* b,
                                  std::uint32_t bytes) noexcept;
/// About how many microseconds each variant of the case takes, below 0 for one that cannot be chosen; then turns.
NIBBLE_WASM_EXPORT(nibble_tuning_race)
std::uint32_t nibble_tuning_race(const double* microseconds, std::uint32_t count, double budget) noexcept;
NIBBLE_WASM_EXPORT(nibble_tuning_next) const wire::TuningTurn* nibble_tuning_next(double microseconds) noexcept;
NIBBLE_WASM_EXPORT(nibble_tuning_rows) const wire::TunedRows* nibble_tuning_rows() noexcept;

}  // namespace nibble::web
