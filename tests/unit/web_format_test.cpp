// The fields of texts as the web's planner writes them: as {fmt} does.
#include "web/format.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "graph/status.hpp"
#include "plan/arguments.hpp"

namespace nibble {
namespace {

template <class... Args>
void expect_same(fmt::format_string<Args...> text, const Args&... args) {
  fmt::memory_buffer written;
  web::write_fields(written, text, fmt::make_format_args(args...));
  EXPECT_EQ(fmt::to_string(written), fmt::vformat(text, fmt::make_format_args(args...)));
}

TEST(WebFormat, TextsWithoutFieldsAreCopied) {
  expect_same("");
  expect_same("a dimension is missing");
  expect_same("{{ return x; }}");
}

TEST(WebFormat, IntegersOfAllSizesAreWritten) {
  expect_same("{} of {}", 0, -7);
  expect_same("{}{}", std::numeric_limits<int>::min(), std::numeric_limits<unsigned>::max());
  expect_same("{}, {}.", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max());
  expect_same("{} {} {}", true, false, 'c');
}

TEST(WebFormat, NumbersHaveTheirShortestDigits) {
  for (const double value : {0.0, -0.0, 1.0, 0.1, 1e-45, 1e300, 5e-324, 123456789.125, 1e16}) expect_same("{}", value);
  for (const float value : {0.0F, 0.1F, 3.4e38F, 1e-45F, -2.5F, 16777216.0F}) expect_same("({})", value);
  expect_same("{} {}", std::numeric_limits<double>::infinity(), std::numeric_limits<float>::quiet_NaN());
}

TEST(WebFormat, WordsAreWrittenWhole) { expect_same("{}: {}{}", std::string("aten.add"), std::string_view("{}"), "é"); }

TEST(WebFormat, TypesOfOurOwnAreWritten) {
  expect_same("{} is {}, not {}", Shape{2, 3, 4}, DType::f16, Shape{});
  expect_same("{}", LiveInt(-3));
}

TEST(WebFormat, FieldsMayBeNumbered) { expect_same("fn take{0}({1}) {{ {0}; {2} }}", 4, "i: u32", 1.5F); }

TEST(WebFormat, HexadecimalHasZerosInFront) {
  for (const unsigned value : {0U, 1U, 0x1fU, 0xabU, 0x1234U, 0xffffffffU}) {
    expect_same("{:02x}", value);
    expect_same("\\u{:04x};", value);
    expect_same("{:x}", value);
  }
  expect_same("{:04x}", static_cast<unsigned char>(9));
  expect_same("{:x}", std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace nibble
