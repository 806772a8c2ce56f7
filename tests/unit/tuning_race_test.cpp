// How the tuner finds the fastest variant by samples that others disturb.
#include <gtest/gtest.h>

#include <random>

#include "plan/tuning_race.hpp"

namespace nibble {
namespace {

/// A machine on which variants take `us` microseconds, a little more or less; others use it for a part of the time, and
/// then a sample takes up to three times as long.
struct Machine {
  std::vector<double> us;
  double noise = 0.01;
  double busy = 0;
  std::mt19937 random;
  std::size_t samples = 0;

  double take(std::size_t variant) {
    ++samples;
    std::uniform_real_distribution<double> zero_to_one;
    const double jitter = 1 + noise * (2 * zero_to_one(random) - 1);
    const double longer = zero_to_one(random) < busy ? 1 + 2 * zero_to_one(random) : 1;
    return us[variant] * jitter * longer;
  }

  std::vector<VariantTime> race(double budget_us = 1e9) {
    std::vector<Race::Racer> racers;
    for (std::size_t v = 0; v < us.size(); ++v) racers.push_back({v, take(v)});
    Race race(racers, budget_us);
    while (const auto turn = race.next()) race.add(take(turn->variant));
    return race.times();
  }
  double chosen(double budget_us = 1e9) { return us[winner_of(race(budget_us))]; }
};

TEST(Race, the_fastest_wins_and_all_have_times) {
  Machine machine{.us = {100, 300, 80, 95}, .random = std::mt19937(1)};
  const auto times = machine.race();
  ASSERT_EQ(times.size(), 4U);
  EXPECT_EQ(winner_of(times), 2U);
  for (std::size_t v = 0; v < 4; ++v) {
    EXPECT_EQ(times[v].variant, v);
    EXPECT_NEAR(times[v].rounds[0], machine.us[v], 0.02 * machine.us[v]);
    EXPECT_LE(times[v].rounds[0], times[v].rounds[1]);
  }
}

TEST(Race, one_alone_is_measured_once_and_none_not_at_all) {
  Machine alone{.us = {100}, .random = std::mt19937(1)};
  EXPECT_EQ(winner_of(alone.race()), 0U);
  EXPECT_EQ(alone.samples, 1U + 5U);
  EXPECT_FALSE(Race({}, 1e9).next());
}

TEST(Race, samples_are_as_long_as_each_variant_needs) {
  const std::vector<Race::Racer> racers{{7, 10000}, {8, 10}, {9, 0}};
  Race race(racers, 1e9);
  EXPECT_EQ(race.next()->variant, 7U);
  EXPECT_EQ(race.next()->times, 1U);
  race.add(10000);
  EXPECT_EQ(race.next()->times, 100U);
  race.add(10);
  EXPECT_EQ(race.next()->times, 256U);
  race.add(10);
  EXPECT_EQ(race.next()->variant, 9U) << "the second sample goes back";
  EXPECT_EQ(race.next()->times, 100U) << "as it is known now";
}

TEST(Race, what_is_far_slower_leaves_early) {
  Machine machine{.us = {100, 1000, 99}, .random = std::mt19937(1)};
  std::vector<Race::Racer> racers{{0, 100}, {1, 1000}, {2, 99}};
  Race race(racers, 1e9);
  std::size_t slow = 0;
  while (const auto turn = race.next()) {
    slow += turn->variant == 1 ? 1U : 0U;
    race.add(machine.take(turn->variant));
  }
  EXPECT_EQ(slow, 2U);
}

// Samples that others disturb: more rounds, until two agree.
TEST(Race, on_a_busy_machine_what_is_chosen_is_near_the_best) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> sizes(1, 1.6);
  int near = 0;
  constexpr int kRaces = 400;
  for (int i = 0; i < kRaces; ++i) {
    Machine machine{.us = {}, .busy = 0.3, .random = std::mt19937(random())};
    for (int v = 0; v < 8; ++v) machine.us.push_back(100 * sizes(random));
    std::ranges::swap(machine.us[0], *std::ranges::max_element(machine.us));  // the table prefers the slowest
    near += machine.chosen() <= 1.05 * std::ranges::min(machine.us) ? 1 : 0;
  }
  EXPECT_GE(near, kRaces * 97 / 100);
}

TEST(Race, variants_alike_leave_the_first) {
  std::mt19937 random(6);
  int changed = 0;
  for (int i = 0; i < 200; ++i) {
    Machine machine{.us = {100, 100, 101, 99}, .busy = 0.3, .random = std::mt19937(random())};
    changed += winner_of(machine.race()) != 0 ? 1 : 0;
  }
  EXPECT_LE(changed, 4);
}

TEST(Race, a_budget_bounds_all_but_two_rounds) {
  const auto samples = [](double budget_us) {
    Machine machine{.us = {100, 98, 97, 96}, .noise = 0.5, .random = std::mt19937(3)};
    (void)machine.race(budget_us);
    return machine.samples - 4;
  };
  EXPECT_LE(samples(0), 2U * 5 * 4);
  EXPECT_GT(samples(1e9), 2U * 5 * 4);
  EXPECT_LE(samples(1e9), 10U * 5 * 4);
}

}  // namespace
}  // namespace nibble
