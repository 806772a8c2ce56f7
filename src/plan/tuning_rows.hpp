// What follows from times that were measured: which variants win, and the rows of a tuning.
#pragma once

#include "nibble/tuning.hpp"
#include "plan/tuning_cases.hpp"

namespace nibble {

/// Microseconds of a variant, in each of two rounds: its best ones.
struct VariantTime {
  std::size_t variant = 0;
  std::array<double, 2> rounds{};
};

/// The fastest of those that are faster than the first by 3 % in both rounds; else the first. Where rounds differ by
/// more than a tenth, in each round than the first in any.
std::size_t winner_of(std::span<const VariantTime> times);

/// Rows of a tuning, with what they follow from.
struct TunedRow {
  TuningRow row;
  std::string before;                                 ///< the variant that was selected without it
  std::vector<std::string> ops;                       ///< that were measured
  std::vector<std::pair<std::string, double>> times;  ///< microseconds of all of them, by variant
};

/// Collects what is measured.
class TuningTimes {
 public:
  /// `times`: of all variants of the case that can be chosen, the first is the one that the plan selects.
  void add(const TuningCase& one, std::string_view op, std::vector<VariantTime> times);

  /// A row for each point. At a point that several nodes share, their times count together. Then one for all sizes
  /// between a node's neighbouring points (two sizes, two positions, or two of both), where the same variant wins at
  /// all, and it is not what would be selected at all: of sizes beyond what was measured, a tuning says nothing.
  std::vector<TunedRow> rows() const;

 private:
  struct Point {
    TuningPoint point;
    std::vector<VariantTime> times;
    std::vector<std::string> ops;
  };
  static constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  struct Last {
    std::uint32_t node = 0;
    std::size_t call = 0;
    std::size_t position = 0;
    std::size_t point = 0;
    std::size_t before = kNone;  ///< the point of the sizes before, at that position
  };

  /// Remembers which points are neighbours of this one.
  void link(const TuningCase& one, std::size_t place);

  std::vector<Point> points_;
  std::vector<std::vector<std::size_t>> neighbours_;
  std::vector<Last> last_;  ///< per choice and position of the node that was last added
};

}  // namespace nibble
