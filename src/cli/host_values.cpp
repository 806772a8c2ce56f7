#include "cli/host_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "graph/size.hpp"

namespace nibble::cli {
namespace {

double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class T>
T element(const Array& array, std::size_t i) {
  T value{};
  std::memcpy(&value, array.memory.data.get() + i * sizeof(T), sizeof(T));
  return value;
}

std::string value_text(const Array& array, std::size_t i) {
  switch (array.dtype) {
    case DType::boolean: return element<std::uint8_t>(array, i) != 0 ? "true" : "false";
    case DType::u8: return fmt::format("{}", element<std::uint8_t>(array, i));
    case DType::i8: return fmt::format("{}", element<std::int8_t>(array, i));
    case DType::i32: return fmt::format("{}", element<std::int32_t>(array, i));
    case DType::i64: return fmt::format("{}", element<std::int64_t>(array, i));
    case DType::f16: return fmt::format("{:.6g}", half_to_double(element<std::uint16_t>(array, i)));
    case DType::f32: return fmt::format("{:.6g}", element<float>(array, i));
    case DType::f64: return fmt::format("{:.6g}", element<double>(array, i));
  }
  return "";
}

template <class T, class Make>
void fill(Array& array, Make&& make) {
  const auto count = static_cast<std::size_t>(array.shape.numel());
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<T>(make());
    std::memcpy(array.memory.data.get() + i * sizeof(T), &value, sizeof(T));
  }
}

Result<Array> make_array(DType dtype, const Shape& shape, std::string_view what) {
  TRY_ASSIGN(const auto bytes, Size::bytes(shape, dtype).get(fmt::format("the size of {}", what)));
  Array array{dtype, shape, {}};
  TRY_ASSIGN(array.memory, HostMemory::make(bytes, what));
  return array;
}

}  // namespace

Result<HostInputs> bind_inputs(const std::vector<TensorInfo>& wanted, std::vector<Array> arrays,
                               const std::vector<std::int64_t>& ints) {
  const auto int_count = static_cast<std::size_t>(std::ranges::count_if(wanted, &TensorInfo::is_int));
  const auto check = [](std::size_t given, std::size_t takes, std::string_view option) -> Status {
    if (given == takes) return {};
    return fail(ErrorCode::invalid_argument, "the program takes {} {} {}, but {} {} given", takes, option,
                takes == 1 ? "value" : "values", given, given == 1 ? "was" : "were");
  };
  TRY(check(arrays.size(), wanted.size() - int_count, "--input"));
  TRY(check(ints.size(), int_count, "--int"));
  HostInputs inputs{.arrays = std::move(arrays), .tensors = {}};
  std::size_t next_array = 0;
  std::size_t next_int = 0;
  for (const auto& info : wanted) {
    HostTensor tensor;
    if (info.is_int) {
      tensor.is_int = true;
      tensor.integer = ints[next_int++];
    } else {
      const Array& array = inputs.arrays[next_array++];
      tensor = {array.dtype, array.shape, array.memory.data.get(), false, 0};
    }
    inputs.tensors.push_back(tensor);
  }
  return inputs;
}

Result<Array> random_array(DType dtype, const Shape& shape, std::int64_t index_rows, std::uint64_t seed) {
  TRY_ASSIGN(Array array, make_array(dtype, shape, "a random input"));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  std::uniform_int_distribution<std::int64_t> id(0, std::max<std::int64_t>(0, index_rows - 1));
  switch (dtype) {
    case DType::f32: fill<float>(array, [&] { return number(random); }); break;
    case DType::f64: fill<double>(array, [&] { return number(random); }); break;
    // Sign, exponents below that of 1, fraction: all finite and small.
    case DType::f16: fill<std::uint16_t>(array, [&] { return (random() & 0x83ff) | (random() % 15) << 10; }); break;
    case DType::boolean: fill<std::uint8_t>(array, [&] { return random() & 1; }); break;
    case DType::u8:
    case DType::i8: fill<std::uint8_t>(array, [&] { return random(); }); break;
    case DType::i32: fill<std::int32_t>(array, [&] { return id(random); }); break;
    case DType::i64: fill<std::int64_t>(array, [&] { return id(random); }); break;
  }
  return array;
}

Result<HostOutputs> make_outputs(const Model& model, const Session& session) {
  HostOutputs all;
  for (std::size_t i = 0; i < model.outputs().size(); ++i) {
    const TensorInfo& info = model.outputs()[i];
    TRY_ASSIGN(Array array, make_array(info.is_int ? DType::i64 : info.dtype,
                                       info.is_int ? Shape{} : session.output_shape(i), fmt::format("output {}", i)));
    all.outputs.push_back({array.dtype, array.memory.data.get(), array.memory.bytes});
    all.arrays.push_back(std::move(array));
  }
  return all;
}

std::vector<std::string> first_values(const Array& array, std::size_t most) {
  std::vector<std::string> values;
  const auto count = std::min(most, static_cast<std::size_t>(array.shape.numel()));
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.push_back(value_text(array, i));
  return values;
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

}  // namespace nibble::cli
