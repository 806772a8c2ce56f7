#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "program/mapped_file.hpp"
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

std::size_t resident_pages(const MappedFile& file) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream statm("/proc/self/smaps");
  const auto start = reinterpret_cast<std::uintptr_t>(file.bytes().data());
  std::string line;
  bool inside = false;
  while (std::getline(statm, line)) {
    if (line.find('-') != std::string::npos && line.find(':') != std::string::npos && std::isxdigit(line[0]) != 0) {
      inside = std::strtoull(line.c_str(), nullptr, 16) == start;
    } else if (inside && line.starts_with("Rss:")) {
      return std::strtoull(line.c_str() + 4, nullptr, 10) * 1024 / page;
    }
  }
  return 0;
}

TEST_F(ProgramFile, maps_a_file) {
  const Bytes bytes(10000, std::byte{42});
  auto file = MappedFile::open(write(bytes));
  ASSERT_TRUE(succeeds(file));
  const MappedFile moved = std::move(*file);
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), bytes));
}

TEST_F(ProgramFile, says_why_it_cannot_be_opened) {
  EXPECT_TRUE(
      fails_with(MappedFile::open((folder_ / "nothing").string()), "cannot be opened: No such file or directory"));
  EXPECT_TRUE(fails_with(MappedFile::open(folder_.string()), "is a folder, not a file"));
  EXPECT_TRUE(fails_with(MappedFile::open(write({})), "model.pte' is empty"));
  EXPECT_TRUE(fails_with(MappedFile::open("/dev/null"), "is not a regular file"));
  EXPECT_TRUE(fails_with(MappedFile::open(write(Bytes(1)) + "/below"), "cannot be opened: Not a directory"));
  const auto path = write(Bytes(1));
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  if (::geteuid() != 0) {
    EXPECT_TRUE(fails_with(MappedFile::open(path), "cannot be opened: Permission denied"));
  }
}

TEST_F(ProgramFile, a_missing_file_is_an_io_error_and_an_empty_one_an_invalid_program) {
  const auto missing = MappedFile::open((folder_ / "nothing").string());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io);
  const auto empty = MappedFile::open(write({}));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::invalid_program);
}

TEST_F(ProgramFile, gives_the_bytes_of_constants) {
  auto mapped = MappedFile::open(write(make_pte(embedding_blob())));
  ASSERT_TRUE(succeeds(mapped));
  const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  const auto program = read_program(file->bytes());
  ASSERT_TRUE(succeeds(program));
  FileConstants constants(file, program->graph.constants);
  const auto table = constants.open(0);
  ASSERT_TRUE(succeeds(table));
  EXPECT_TRUE(std::ranges::equal(*table, Bytes(160, std::byte{0x5a})));
  constants.consumed(0, 100);
  EXPECT_TRUE(std::ranges::equal(*table, Bytes(160, std::byte{0x5a}))) << "released pages are read again";
  constants.close(0);
  const auto scales = constants.open(1);
  ASSERT_TRUE(succeeds(scales));
  EXPECT_TRUE(std::ranges::equal(*scales, bytes_of(std::vector<float>(20, 0.5F))));
  EXPECT_FALSE(constants.open(2));
}

TEST_F(ProgramFile, gives_back_the_pages_of_consumed_constants) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Bytes bytes(64 * page);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i / page);
  auto mapped = MappedFile::open(write(bytes));
  ASSERT_TRUE(succeeds(mapped));
  const auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  Constant constant;
  constant.offset = 100;
  constant.length = bytes.size() - 100;
  constant.located = true;
  FileConstants constants(file, {constant});
  const auto opened = constants.open(0);
  ASSERT_TRUE(succeeds(opened));
  ASSERT_TRUE(std::ranges::equal(*opened, std::span(bytes).subspan(100)));
  ASSERT_EQ(resident_pages(*file), 64U);
  constants.consumed(0, 32 * page);
  EXPECT_EQ(resident_pages(*file), 32U);
  constants.close(0);
  EXPECT_EQ(resident_pages(*file), 0U);
}

}  // namespace
}  // namespace nibble::test
