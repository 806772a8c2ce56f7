// Files that replace others: who may read them, and what becomes of links.
#include "api/new_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace nibble::test
