// The command's own parts: .npy files, shapes on the command line, tables.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/commands.hpp"
#include "cli/host_values.hpp"
#include "cli/npy.hpp"
#include "cli/table.hpp"

namespace nibble::cli {
namespace {

class NpyTest : public ::testing::Test {
 protected:
  std::string path() const { return path_; }
  void TearDown() override { std::filesystem::remove(path_); }

  /// A file as NumPy writes it, around any header and data.
  void write(std::string_view header, std::size_t data_bytes, int version = 1) {
    std::string file = "\x93NUMPY";
    file += static_cast<char>(version);
    file += '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
    file += header;
    for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i + 1);
    write_raw(file);
  }
  void write_raw(std::string_view file) { std::ofstream(path_, std::ios::binary).write(file.data(), std::ssize(file)); }
  std::string error() const {
    const auto array = read_npy(path_);
    return array ? "" : array.error().message;
  }
  void expect_error(std::string_view part) const { EXPECT_NE(error().find(part), std::string::npos) << error(); }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("nibble_npy_" + std::to_string(getpid()) + ".npy");
};

TEST_F(NpyTest, reads_what_it_writes) {
  const std::array<std::int32_t, 6> values{1, -2, 3, 4, 5, 1 << 30};
  for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{1, 6, 1}}) {
    ASSERT_TRUE(write_npy(path(), DType::i32, shape, std::as_bytes(std::span(values))));
    const auto array = read_npy(path());
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->dtype, DType::i32);
    EXPECT_EQ(array->shape, shape);
    ASSERT_EQ(array->memory.bytes, sizeof values);
    EXPECT_EQ(std::memcmp(array->memory.data.get(), values.data(), sizeof values), 0);
  }
}

TEST_F(NpyTest, keeps_every_type_scalars_and_empty_arrays) {
  const std::array<std::byte, 8> bytes{};
  for (auto dtype :
       {DType::boolean, DType::u8, DType::i8, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0}}) {
      const auto size = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
      ASSERT_TRUE(write_npy(path(), dtype, shape, std::span(bytes).first(size)));
      const auto array = read_npy(path());
      ASSERT_TRUE(array) << array.error().message;
      EXPECT_EQ(array->dtype, dtype);
      EXPECT_EQ(array->shape, shape);
    }
  }
}

TEST_F(NpyTest, data_begins_at_a_multiple_of_64) {
  ASSERT_TRUE(write_npy(path(), DType::u8, {}, std::array{std::byte{7}}));
  EXPECT_EQ(std::filesystem::file_size(path()) % 64, 1U);
}

TEST_F(NpyTest, reads_all_versions_and_orders_of_keys) {
  for (int version : {1, 2, 3}) {
    write("{\"shape\":(2,),'fortran_order' : False, 'descr': '<i4'}", 8, version);
    const auto array = read_npy(path());
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->shape, Shape{2});
  }
}

TEST_F(NpyTest, column_major_is_fine_where_it_is_the_same) {
  write("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2, 1), }", 8);
  EXPECT_EQ(error(), "");
  write("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2), }", 16);
  expect_error("column-major");
}

TEST_F(NpyTest, refuses_broken_files_with_a_sentence) {
  write_raw("");
  expect_error("is not a .npy file");
  write_raw("PK\3\4 and so on");
  expect_error("is not a .npy file");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, 4);
  expect_error("version 4");
  write_raw(std::string_view("\x93NUMPY\1\0\xff", 9));
  expect_error("ends inside its header");
  write_raw(std::string_view("\x93NUMPY\1\0\xff\0{'descr'", 18));
  expect_error("ends inside its header");
  write_raw(std::string_view("\x93NUMPY\2\0\xff\xff\xff\xff", 12));
  expect_error("header of 4294967295 bytes");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7);
  expect_error("holds 7 bytes of data, but a float32 array of shape [2] takes 8");
  write("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8);
  expect_error("type '>f4'");
  write("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8);
  expect_error("type '<c8'");
  write("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4);
  expect_error("does not describe one array");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4);
  expect_error("does not describe one array");
  write("{'descr': '<f4', 'fortran_order': False, }", 4);
  expect_error("does not describe one array");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 4);
  expect_error("does not fit 64 bits");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }", 4);
  expect_error("holds 4 bytes of data");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", 4);
  expect_error("more than 8 dimensions");
}

TEST_F(NpyTest, every_cut_of_a_file_is_an_error) {
  const std::array<std::byte, 12> data{};
  ASSERT_TRUE(write_npy(path(), DType::f32, {3}, data));
  std::ifstream in(path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_raw(std::string_view(whole).substr(0, size));
    EXPECT_NE(error(), "") << size;
  }
}

TEST_F(NpyTest, names_the_file_that_it_cannot_open) {
  expect_error("cannot open");
  EXPECT_FALSE(write_npy("/no/such/folder/x.npy", DType::u8, {}, {}));
  const auto folder = read_npy(std::filesystem::temp_directory_path());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("is a folder"), std::string::npos);
}

TEST(CommandLine, reads_input_shapes) {
  const auto shape = parse_input_shape("2=1,70");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->first, 2U);
  EXPECT_EQ(shape->second, (Shape{1, 70}));
  const auto scalar = parse_input_shape("0=");
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->second, Shape{});
  for (const auto* wrong : {"", "0", "=1", "a=1", "0=1,", "0=,1", "0=1;2", "0=-1", "-1=2", "0=1,1,1,1,1,1,1,1,1",
                            "0=99999999999999999999"}) {
    EXPECT_FALSE(parse_input_shape(wrong)) << wrong;
  }
}

TEST(CommandLine, tables_align_their_columns) {
  Table table("lr");
  table.row({"op", "µs"});
  table.row({"longer", "10"});
  EXPECT_EQ(table.text("  "), "  op      µs\n  longer  10\n");
}

TEST(CommandLine, random_ids_lie_in_the_table) {
  const auto ids = random_array(DType::i64, {100}, 3, 1);
  ASSERT_TRUE(ids);
  for (const auto& text : first_values(*ids, 100)) EXPECT_TRUE(text == "0" || text == "1" || text == "2") << text;
}

TEST(CommandLine, half_values_are_printed) {
  Array array{DType::f16, {6}, *HostMemory::make(12, "a test")};
  const std::array<std::uint16_t, 6> bits{0x3c00, 0xc000, 0x0001, 0x7c00, 0xfc00, 0x0000};
  std::memcpy(array.memory.data.get(), bits.data(), sizeof bits);
  EXPECT_EQ(first_values(array, 6), (std::vector<std::string>{"1", "-2", "5.96046e-08", "inf", "-inf", "0"}));
}

TEST(CommandLine, inputs_are_bound_in_order) {
  const std::vector<TensorInfo> wanted{{.dtype = DType::f32, .shape = {2}},
                                       {.dtype = DType::i64, .shape = {}, .is_int = true},
                                       {.dtype = DType::f32, .shape = {1}}};
  const auto arrays = [](std::size_t count) {
    std::vector<Array> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back({DType::f32, {static_cast<std::int64_t>(i)}, *HostMemory::make(4 * i, "a test")});
    }
    return all;
  };
  const auto bound = bind_inputs(wanted, arrays(2), {7});
  ASSERT_TRUE(bound) << bound.error().message;
  ASSERT_EQ(bound->tensors.size(), 3U);
  EXPECT_EQ(bound->tensors[0].shape, Shape{0});
  EXPECT_EQ(bound->tensors[1].integer, 7);
  EXPECT_TRUE(bound->tensors[1].is_int);
  EXPECT_EQ(bound->tensors[2].shape, Shape{1});
  EXPECT_EQ(bind_inputs(wanted, arrays(1), {7}).error().message, "the program takes 2 --input values, but 1 was given");
  EXPECT_EQ(bind_inputs(wanted, arrays(2), {}).error().message, "the program takes 1 --int value, but 0 were given");
}

}  // namespace
}  // namespace nibble::cli
