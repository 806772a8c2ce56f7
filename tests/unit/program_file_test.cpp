#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "program/file.hpp"
#include "program/program.hpp"
#include "support/expect.hpp"
#include "support/pte_builder.hpp"
#include "support/small_programs.hpp"

namespace nibble::test {
namespace {

/// A folder of its own for each test.
class ProgramFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "nibble-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const Bytes& bytes) const {
    const auto path = folder_ / "model.pte";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }

  std::filesystem::path folder_;
};

Bytes read(const File& file, std::uint64_t offset, std::size_t size) {
  Bytes bytes(size);
  EXPECT_TRUE(succeeds(file.read(offset, bytes)));
  return bytes;
}

TEST_F(ProgramFile, reads_a_file) {
  Bytes bytes(10000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i / 7);
  auto file = File::open(write(bytes));
  ASSERT_TRUE(succeeds(file));
  const File moved = std::move(*file);
  EXPECT_EQ(read(moved, 0, bytes.size()), bytes);
  EXPECT_EQ(read(moved, 9998, 2), Bytes(bytes.end() - 2, bytes.end()));
  EXPECT_EQ(read(moved, 10000, 0), Bytes());
  Bytes two(2);
  EXPECT_TRUE(fails_with(moved.read(9999, two), "has 10000 bytes, but 2 from byte 9999 on are wanted"));
  EXPECT_TRUE(
      fails_with(moved.read(~std::uint64_t{0}, two), "has 10000 bytes, but 2 from byte 18446744073709551615 on"));
}

TEST_F(ProgramFile, a_file_that_is_overwritten_cannot_be_read_on) {
  const auto path = write(Bytes(10000, std::byte{1}));
  const auto file = File::open(path);
  ASSERT_TRUE(succeeds(file));
  EXPECT_EQ(read(*file, 0, 100), Bytes(100, std::byte{1}));
  write(Bytes(10000, std::byte{2}));
  Bytes bytes(100);
  const auto changed = file->read(5000, bytes);
  ASSERT_TRUE(fails_with(changed, "model.pte' was changed while it was read"));
  EXPECT_EQ(changed.error().code, ErrorCode::io);
}

TEST_F(ProgramFile, a_file_that_is_cut_off_is_an_error) {
  const auto path = write(make_pte(embedding_blob()));
  const auto file = File::open(path);
  ASSERT_TRUE(succeeds(file));
  const auto program = read_program(*file);
  ASSERT_TRUE(succeeds(program));
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  FileConstants constants(*file, program->graph.constants);
  Bytes table(160);
  EXPECT_TRUE(fails_with(constants.read(0, 0, table), "model.pte' was changed while it was read"));
  EXPECT_TRUE(fails_with(read_program(*file), "model.pte' was changed while it was read"));
}

TEST_F(ProgramFile, a_file_whose_name_goes_to_another_is_read_on) {
  const auto path = write(Bytes(10000, std::byte{1}));
  const auto file = File::open(path);
  ASSERT_TRUE(succeeds(file));
  std::filesystem::rename(path, path + "-old");
  write(Bytes(10000, std::byte{2}));
  std::filesystem::remove(path + "-old");
  EXPECT_EQ(read(*file, 0, 10000), Bytes(10000, std::byte{1}));
}

// The writer works between the reads of the reader: every result is right or an error.
TEST_F(ProgramFile, a_program_that_changes_while_it_is_read_is_right_or_an_error) {
  const Bytes good = make_pte(embedding_blob());
  Bytes bad = good;
  for (std::size_t i = 64; i < bad.size(); i += 3) bad[i] = ~bad[i];
  const auto path = write(good);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; !done; ++i) {
      write(i % 2 == 0 ? bad : good);
      if (i % 5 == 0) ::truncate(path.c_str(), 300);
    }
  });
  for (int i = 0; i < 200; ++i) {
    if (const auto file = File::open(path)) read_program(*file);
  }
  done = true;
  writer.join();
  write(good);
  const auto file = File::open(path);
  ASSERT_TRUE(succeeds(file));
  EXPECT_TRUE(succeeds(read_program(*file)));
}

TEST_F(ProgramFile, is_opened_when_it_has_not_changed_for_a_while) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::milliseconds(20);
  // Where something else takes the processors, the writer may pause for so long that the file was indeed left alone.
  bool is_shown = false;
  for (int again = 0; again < 50 && !is_shown; ++again) {
    const auto path = write(Bytes(100));
    auto last = Clock::now();
    auto longest = Clock::duration::zero();
    std::jthread writer([&] {
      for (int i = 0; i < 40; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
        const auto now = Clock::now();
        longest = std::max(longest, now - std::exchange(last, now));
      }
    });
    const auto file = File::open(path);
    const auto opened = Clock::now();
    writer.join();
    ASSERT_TRUE(succeeds(file));
    if (longest >= kPause) continue;
    is_shown = true;
    EXPECT_GT(opened, last);
  }
}

TEST_F(ProgramFile, says_why_it_cannot_be_opened) {
  EXPECT_TRUE(fails_with(File::open((folder_ / "nothing").string()), "cannot be opened: No such file or directory"));
  EXPECT_TRUE(fails_with(File::open(folder_.string()), "is a folder, not a file"));
  EXPECT_TRUE(fails_with(File::open(write({})), "model.pte' is empty"));
  EXPECT_TRUE(fails_with(File::open("/dev/null"), "is not a regular file"));
  EXPECT_TRUE(fails_with(File::open(write(Bytes(1)) + "/below"), "cannot be opened: Not a directory"));
  const auto path = write(Bytes(1));
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  if (::geteuid() != 0) {
    EXPECT_TRUE(fails_with(File::open(path), "cannot be opened: Permission denied"));
  }
}

TEST_F(ProgramFile, a_path_is_not_cut_at_a_nul) {
  const auto path = write(Bytes(1));
  EXPECT_TRUE(fails_with(File::open(path + '\0' + "junk"), "model.pte' has a NUL in it"));
}

TEST_F(ProgramFile, a_missing_file_is_an_io_error_and_an_empty_one_an_invalid_program) {
  const auto missing = File::open((folder_ / "nothing").string());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  const auto empty = File::open(write({}));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::invalid_program);
}

TEST_F(ProgramFile, gives_the_bytes_of_constants) {
  const auto file = File::open(write(make_pte(embedding_blob())));
  ASSERT_TRUE(succeeds(file));
  const auto program = read_program(*file);
  ASSERT_TRUE(succeeds(program));
  FileConstants constants(*file, program->graph.constants);
  Bytes table(160);
  ASSERT_TRUE(succeeds(constants.read(0, 0, table)));
  EXPECT_EQ(table, Bytes(160, std::byte{0x5a}));
  Bytes scales(76);
  ASSERT_TRUE(succeeds(constants.read(1, 4, scales)));
  EXPECT_TRUE(std::ranges::equal(scales, bytes_of(std::vector<float>(19, 0.5F))));
  EXPECT_TRUE(fails_with(constants.read(1, 8, scales), "constant 1 has 80 bytes, but 76 from byte 8 on are needed"));
  EXPECT_TRUE(fails_with(constants.read(2, 0, scales), "constant 2 of 2 is not in the file"));
}

}  // namespace
}  // namespace nibble::test
