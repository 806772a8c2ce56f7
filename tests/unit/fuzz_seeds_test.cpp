// What the fuzzers found once, as far as it needs no device: tests/fuzz/seeds has a folder for each target.
#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/plan_and_step.hpp"
#include "program/file.hpp"
#include "program/program.hpp"

namespace nibble::test {
namespace {

/// A whole file, or else a blob.
Result<Graph> read_seed(std::span<const std::byte> bytes) {
  auto program = read_program(bytes);
  if (program) return std::move(program->graph);
  return read_blob(bytes, [](std::string_view) { return Result<std::uint64_t>(0); });
}

TEST(FuzzSeeds, end_well) {
  std::size_t seeds = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(NIBBLE_FUZZ_SEEDS)) {
    if (!entry.is_regular_file()) continue;
    const auto text = read_text(entry.path());
    ASSERT_TRUE(text) << entry.path();
    ++seeds;
    const auto graph = read_seed(std::as_bytes(std::span(*text)));
    for (std::uint32_t seed = 0; graph && seed < 8; ++seed) {
      const auto kind = seed % 2 == 0 ? AdapterKind::cpu : AdapterKind::discrete;
      EXPECT_EQ(bug_in(*graph, kind, seed), "") << entry.path() << ", seed " << seed;
    }
  }
  EXPECT_NE(seeds, 0U);
}

}  // namespace
}  // namespace nibble::test
