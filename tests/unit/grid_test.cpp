#include "plan/grid.hpp"

#include <gtest/gtest.h>

namespace nibble {
namespace {

std::uint64_t threads_of(const Grid& g) { return std::uint64_t{g.workgroup} * g.groups[0] * g.groups[1] * g.groups[2]; }

TEST(Grid, clamps_the_workgroup_to_the_device) {
  Limits limits;
  limits.max_workgroup_invocations = 32;
  EXPECT_EQ(grid_for(1000, 256, limits)->workgroup, 32U);
  limits.max_workgroup_size_x = 8;
  EXPECT_EQ(grid_for(1000, 256, limits)->workgroup, 8U);
}

TEST(Grid, covers_every_count_without_passing_the_limit) {
  Limits limits;
  limits.max_workgroups_per_dimension = 7;
  for (std::uint64_t threads = 1; threads <= 64ULL * 7 * 7 * 7; threads += 61) {
    const auto grid = grid_for(threads, 64, limits);
    ASSERT_TRUE(grid) << grid.error().message;
    EXPECT_GE(threads_of(*grid), threads);
    for (auto g : grid->groups) EXPECT_LE(g, 7U);
  }
}

TEST(Grid, folds_evenly) {
  const auto grid = grid_for(std::uint64_t{64} * 65536, 64, Limits{});
  ASSERT_TRUE(grid);
  EXPECT_EQ(grid->groups, (std::array<std::uint32_t, 3>{32768, 2, 1}));
}

TEST(Grid, of_no_threads_is_empty) { EXPECT_EQ(threads_of(*grid_for(0, 64, Limits{})), 0U); }

TEST(Grid, names_a_count_that_does_not_fit_32_bits) {
  const auto grid = grid_for(5'000'000'000, 64, Limits{});
  ASSERT_FALSE(grid);
  EXPECT_NE(grid.error().message.find("5000000000 threads"), std::string::npos) << grid.error().message;
}

TEST(Grid, refuses_what_three_dimensions_cannot_hold) {
  Limits limits;
  limits.max_workgroups_per_dimension = 4;
  EXPECT_TRUE(grid_for(64 * 64, 64, limits));
  EXPECT_FALSE(grid_for(64 * 64 + 1, 64, limits));
}

}  // namespace
}  // namespace nibble
