// Files that replace others: who may read them, what becomes of links, and of two that are written at once.
#include "api/new_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "api/tuning_json.hpp"
#include "api/tuning_merge.hpp"
#include "nibble/nibble.hpp"
#include "support/expect.hpp"

namespace nibble::test {
namespace {

namespace fs = std::filesystem;
using Readers = NewFile::Readers;

/// A folder of its own for each test, and a usual umask.
class NewFileTest : public testing::Test {
 protected:
  NewFileTest() : umask_(::umask(022)) {
    std::string name = (fs::temp_directory_path() / "nibble-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~NewFileTest() override {
    fs::remove_all(folder_);
    ::umask(umask_);
  }

  std::string operator/(std::string_view name) const { return (folder_ / name).string(); }
  static void write(const std::string& path, Readers readers) {
    auto file = NewFile::create(path, readers);
    ASSERT_TRUE(succeeds(file));
    EXPECT_TRUE(succeeds(file->write(std::as_bytes(std::span("new")))));
    EXPECT_TRUE(succeeds(file->finish()));
  }
  static void put(const std::string& path, std::string_view text) { std::ofstream(path) << text; }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static unsigned mode(const std::string& path) {
    struct stat there{};
    EXPECT_EQ(::stat(path.c_str(), &there), 0);
    return there.st_mode & 0777U;
  }
  static Json tuning(const std::string& device) { return to_json({}, {device, "d", "e", std::string(version())}); }
  static Status keep(const std::string& path, const std::string& device) {
    return keep_tuning(path, tuning(device), IfDamaged::fail);
  }
  std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;

 private:
  mode_t umask_;
};

TEST_F(NewFileTest, its_readers_are_its_owner_or_as_usual_or_those_of_the_file_before) {
  write(*this / "own", Readers::owner);
  EXPECT_EQ(mode(*this / "own"), 0600U);
  write(*this / "usual", Readers::usual);
  EXPECT_EQ(mode(*this / "usual"), 0644U);
  for (const auto wanted : {0640U, 0600U, 0664U}) {
    ASSERT_EQ(::chmod((*this / "usual").c_str(), wanted), 0);
    write(*this / "usual", Readers::usual);
    EXPECT_EQ(mode(*this / "usual"), wanted);
    write(*this / "usual", Readers::owner);
    EXPECT_EQ(mode(*this / "usual"), 0600U);
  }
  ::umask(077);
  write(*this / "narrow", Readers::usual);
  EXPECT_EQ(mode(*this / "narrow"), 0600U);
}

TEST_F(NewFileTest, what_is_in_the_way_of_its_working_name_stays) {
  for (int i = 0; i < 3; ++i) put(fmt::format("{}.{}.{}", *this / "file", ::getpid(), i), "other");
  const auto before = files();
  for (int i = 0; i < 3; ++i) write(*this / "file", Readers::owner);
  EXPECT_EQ(files(), before + 1);
  EXPECT_TRUE(fails_with(NewFile::create(folder_.string()), "cannot be written: it is not a regular file"));
  EXPECT_TRUE(fails_with(NewFile::create(*this / "none/file"), "cannot be written: No such file or directory"));
}

TEST_F(NewFileTest, a_tuning_is_kept_behind_a_link_and_everyone_may_read_it) {
  fs::create_directory(folder_ / "a");
  fs::create_symlink("a/there", folder_ / "link");
  fs::create_symlink(*this / "link", folder_ / "a/second");
  const auto there = *this / "a/there";
  for (const auto* name : {"A", "B"}) {  // to what does not exist yet, and to what does
    EXPECT_TRUE(succeeds(check_keeping(*this / "a/second", IfDamaged::fail)));
    EXPECT_TRUE(succeeds(keep(*this / "a/second", name)));
    EXPECT_MENTIONS(read(there), fmt::format(R"("device": "{}")", name));
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(mode(there), 0644U);
  EXPECT_EQ(files(), 2U) << "nothing else is left";
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_EQ(behind_links(*this / "loop"), *this / "loop");
}

TEST_F(NewFileTest, of_tunings_that_end_together_none_is_lost) {
  constexpr int kThreads = 4;
  constexpr int kEach = 10;
  const auto path = *this / "tuning.json";
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(succeeds(keep(path, fmt::format("{} {}", t, i))));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto json = Json::parse(read(path));
  ASSERT_TRUE(succeeds(json));
  EXPECT_EQ(tunings_of(*json)->size(), std::size_t{kThreads * kEach});
  EXPECT_EQ(files(), 1U);
}

TEST_F(NewFileTest, a_tuning_waits_for_who_changes_files_of_the_folder) {
  const auto path = *this / "tuning.json";
  const int other = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  std::thread keeping([&] { EXPECT_TRUE(succeeds(keep(path, "A"))); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(fs::exists(path));
  ::close(other);
  keeping.join();
  EXPECT_TRUE(fs::exists(path));
}

}  // namespace
}  // namespace nibble::test
