// Which of a node's variants to time next, and when that is enough. It knows no clock and no GPU.
#pragma once

#include "plan/tuning_rows.hpp"

namespace nibble {

/// Variants take turns, in rounds. A round has a few samples of each, back and forth, and its result is their median. A
/// variant that is far slower leaves. Others that use the machine only make times longer, so the two best rounds of a
/// variant count: there are two at least, unless all lose in the first to the first variant, and more as long as those
/// of the fastest do not agree.
class Race {
 public:
  struct Racer {
    std::size_t variant = 0;
    double microseconds = 0;  ///< of one go, roughly
  };
  struct Turn {
    std::size_t variant = 0;
    std::uint32_t times = 1;  ///< of a sample, one behind the other
  };

  /// The first racer is what others are compared with. What is measured beyond two rounds takes at most so many
  /// microseconds with them.
  Race(std::span<const Racer> racers, double budget_us);

  /// Whom to time now; none if it is decided.
  std::optional<Turn> next() const;
  /// What the turn took, each time.
  void add(double microseconds);
  /// Of all racers, their two best rounds. After one sample of each, at least.
  std::vector<VariantTime> times() const;

 private:
  struct Candidate {
    std::size_t variant = 0;
    double least = 0;             ///< microseconds of a sample, or of the first go
    std::vector<double> samples;  ///< of the round
    std::vector<double> rounds;   ///< their medians, the best first
    bool is_out = false;

    std::uint32_t times() const;
    double best() const;
    /// Its two best rounds agree.
    bool is_settled() const;
  };

  std::size_t turn() const;
  std::size_t samples() const;
  void drop_slow(double far);
  void end_round();
  bool is_decided() const;

  std::vector<Candidate> candidates_;
  double budget_us_;
  double spent_us_ = 0;
  std::size_t round_ = 0;
  std::size_t sample_ = 0;  ///< of the round
  std::size_t place_ = 0;   ///< in the order of this sample
  bool is_done_ = false;
};

}  // namespace nibble
