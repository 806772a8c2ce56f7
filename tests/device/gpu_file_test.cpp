// Files that change while they are loaded, or afterwards.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gpu_fixture.hpp"
#include "support/pte_builder.hpp"

namespace nibble::test {
namespace {

namespace fs = std::filesystem;

class ChangingFile : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    std::string name = (fs::temp_directory_path() / "nibble-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "model.pte").string();
    write(path_, good_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void write(const std::string& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  /// The same program with other constants: nibble n of the table is 15 - n, and scales are twice as large.
  static Bytes make_other(Bytes bytes) {
    std::vector<std::byte> table(kRows * kWidth / 2);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = std::byte{table_byte(i)};
    for (auto& b : std::ranges::search(bytes, table)) b = ~b;
    std::vector<float> scales(kRows * 2);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = table_scale(i);
    const auto found = std::ranges::search(bytes, std::as_bytes(std::span(scales)));
    for (auto& scale : scales) scale *= 2;
    std::memcpy(&*found.begin(), scales.data(), found.size());
    return bytes;
  }

  /// Whether the session gives the rows of one of the two programs, and of no mixture.
  static testing::AssertionResult is_right(Result<std::vector<HostArray>> results) {
    if (!results) return succeeds(results);
    const auto* got = reinterpret_cast<const float*>((*results)[0].data.get());
    std::size_t first = 0;
    std::size_t second = 0;
    const std::size_t all = kIds.size() * kWidth;
    for (std::size_t i = 0; i < all; ++i) {
      const auto row = kIds[i / kWidth];
      const auto column = static_cast<std::int64_t>(i % kWidth);
      const float wanted = embedded(row, column);
      const float scale = table_scale(static_cast<std::size_t>(row * 2 + column / 16));
      first += got[i] == wanted ? 1 : 0;
      second += got[i] == -2 * (wanted + scale) ? 1 : 0;
    }
    if (first == all || second == all) return testing::AssertionSuccess();
    return testing::AssertionFailure() << first << " and " << second << " values of " << all << " are right";
  }

  Result<std::vector<HostArray>> call(const Model& model) const {
    return model.run(std::array{tensor(DType::i64, {2, 2}, kIds)});
  }

  static inline const std::vector<std::int64_t> kIds = {3, 49, 0, 7};
  const Bytes good_ = make_pte(embedding(), {.dynamic = true});
  const Bytes other_ = make_other(good_);
  fs::path folder_;
  std::string path_;
};

TEST_F(ChangingFile, during_a_load_gives_an_error_or_the_right_numbers) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; !done; ++i) {
      const Bytes& next = i % 2 == 0 ? other_ : good_;
      if (i % 3 == 0) {
        write(path_ + "-new", next);
        fs::rename(path_ + "-new", path_);
      } else {
        if (i % 3 == 1) fs::resize_file(path_, 700);
        write(path_, next);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(i * 7 % 40));
    }
  });
  int loaded = 0;
  for (int i = 0; i < 200 && loaded < 20; ++i) {
    const auto model = Model::load(device, path_);
    if (!model) continue;
    ++loaded;
    EXPECT_TRUE(is_right(call(*model)));
  }
  done = true;
  writer.join();
  write(path_, good_);
  const auto model = Model::load(device, path_);
  ASSERT_TRUE(succeeds(model));
  EXPECT_TRUE(is_right(call(*model)));
}

// The progress callback runs between the reads of a load.
TEST_F(ChangingFile, that_is_overwritten_or_cut_off_between_two_reads_is_an_error) {
  for (const bool cut : {false, true}) {
    write(path_, good_);
    LoadOptions options;
    options.on_progress = [&](std::uint64_t, std::uint64_t) {
      if (cut) {
        fs::resize_file(path_, 100);
      } else {
        write(path_, other_);
      }
    };
    const auto model = Model::load(device, path_, options);
    ASSERT_TRUE(fails_with(model, "model.pte' was changed while it was read"));
    EXPECT_EQ(model.error().code, ErrorCode::io);
  }
}

TEST_F(ChangingFile, after_the_load_does_not_matter) {
  const auto model = Model::load(device, path_);
  ASSERT_TRUE(succeeds(model));
  write(path_, other_);
  EXPECT_TRUE(is_right(call(*model)));
  fs::resize_file(path_, 0);
  auto session = model->session();
  ASSERT_TRUE(succeeds(session));
  EXPECT_TRUE(is_right(session->run(std::array{tensor(DType::i64, {2, 2}, kIds)})));
}

}  // namespace
}  // namespace nibble::test
