// After load, no live shape finds anything that was not planned: exported programs at random shapes, whatever kernels
// they take. Graphs that other tests make by hand are called so in planning.hpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "fuzz/plan_and_step.hpp"
#include "program/file.hpp"
#include "program/program.hpp"
#include "support/graph_mutator.hpp"

namespace nibble::test {
namespace {

namespace fs = std::filesystem;

/// Where the suite exports programs to; empty before it did.
std::vector<fs::path> exported_programs() {
  std::vector<fs::path> paths;
  const char* folder = std::getenv("NIBBLE_PROGRAMS");
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder != nullptr ? folder : "", missing)) {
    if (fs::exists(entry.path() / "model.pte")) paths.push_back(entry.path() / "model.pte");
  }
  return paths;
}

TEST(RandomCalls, of_exported_programs_find_nothing_unplanned) {
  constexpr std::uint32_t kSeeds = 16;
  constexpr int kCalls = 40;
  const auto paths = exported_programs();
  if (paths.empty()) GTEST_SKIP() << "no programs in $NIBBLE_PROGRAMS";
  std::size_t plans = 0;
  for (const auto& path : paths) {
    const auto file = File::open(path);
    ASSERT_TRUE(file);
    const auto program = read_program(*file);
    if (!program) continue;  // one that only ExecuTorch runs
    for (const auto kind : {AdapterKind::cpu, AdapterKind::discrete}) {
      for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
        DeviceProfile profile;
        profile.kind = kind;
        const auto plan = Plan::make(program->graph, profile, forced_by(seed), ops::registry());
        ASSERT_TRUE(plan) << path << ": " << plan.error().message;
        EXPECT_EQ(RandomCalls(*plan, seed).find_bug(kCalls), "") << path << ", seed " << seed;
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 0U);
}

/// The fuzzer fuzz_graph in small: other graphs with --gtest_shuffle and --gtest_random_seed.
TEST(RandomCalls, of_programs_that_nobody_exported_end_well) {
  constexpr std::uint32_t kSeeds = 8;
  const auto paths = exported_programs();
  if (paths.empty()) GTEST_SKIP() << "no programs in $NIBBLE_PROGRAMS";
  auto seed = static_cast<std::uint32_t>(testing::UnitTest::GetInstance()->random_seed()) * 7919U;
  for (const auto& path : paths) {
    const auto file = File::open(path);
    ASSERT_TRUE(file);
    const auto program = read_program(*file);
    if (!program) continue;
    for (std::uint32_t i = 0; i < kSeeds; ++i, ++seed) {
      Graph graph = program->graph;
      GraphMutator(graph, seed).mutate(1 + seed % 6);
      const auto kind = seed % 2 == 0 ? AdapterKind::cpu : AdapterKind::discrete;
      EXPECT_EQ(bug_in(std::move(graph), kind, seed), "") << path << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace nibble::test
