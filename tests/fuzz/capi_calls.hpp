// Calls of the C API as the fuzzer makes them: random inputs, some of which lie, and results that are compared.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "nibble/generate.h"
#include "nibble/nibble.h"
#include "plan_and_step.hpp"

namespace nibble::test {

[[noreturn]] inline void report(const std::string& bug) {
  std::fprintf(stderr, "%s\n", bug.c_str());
  std::abort();
}

/// The sentence of a call that failed: what it says must be the program's or the caller's fault.
inline std::string sentence(const char* call) {
  const std::string text = nibble_error();
  const auto code = static_cast<ErrorCode>(nibble_error_code());
  if (text.empty()) report(std::string(call) + " failed and said nothing");
  if (code == ErrorCode::internal || code == ErrorCode::gpu || code == ErrorCode::device_lost) {
    report(std::string(call) + ": " + text);
  }
  return text;
}

struct Free {
  void operator()(nibble_trace* trace) const { nibble_trace_free(trace); }
  void operator()(nibble_model* model) const { nibble_model_free(model); }
  void operator()(nibble_session* session) const { nibble_session_free(session); }
  void operator()(nibble_generator* generator) const { nibble_generator_free(generator); }
};
using TracePtr = std::unique_ptr<nibble_trace, Free>;
using ModelPtr = std::unique_ptr<nibble_model, Free>;
using SessionPtr = std::unique_ptr<nibble_session, Free>;
using GeneratorPtr = std::unique_ptr<nibble_generator, Free>;

/// The input decides all that is random: a find is found again.
class Draw {
 public:
  explicit Draw(std::span<const std::uint8_t> data) : random_(seed_of(data)) {}
  std::uint32_t seed() { return static_cast<std::uint32_t>(random_()); }
  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::minstd_rand random_;
};

/// Small enough that a call is quick on a software adapter, mostly.
inline nibble_load_options limits() {
  nibble_load_options options{};
  options.max_device_bytes = std::uint64_t{1} << 20U;
  options.max_host_bytes = std::uint64_t{1} << 24U;
  options.max_nodes = 64;
  options.max_dispatches = 256;
  return options;
}

struct Inputs {
  std::vector<nibble_tensor> tensors;
  std::vector<std::vector<std::uint8_t>> bytes;  ///< exactly as many as the tensors say
};

inline std::size_t width_of(std::int32_t dtype) {
  switch (dtype) {
    case NIBBLE_INT32:
    case NIBBLE_FLOAT32: return 4;
    case NIBBLE_INT64:
    case NIBBLE_FLOAT64: return 8;
    case NIBBLE_FLOAT16: return 2;
    default: return 1;
  }
}

template <class T>
void put(std::vector<std::uint8_t>& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

inline void fill(std::vector<std::uint8_t>& bytes, std::int32_t dtype, Draw& draw) {
  const std::size_t width = width_of(dtype);
  // A few numbers are beyond any table.
  const auto integer = [&] { return static_cast<std::int64_t>(draw.one_in(512) ? draw.below(1000) : draw.below(4)); };
  const auto real = [&] { return static_cast<float>(draw.below(4096)) / 1024.0F - 2.0F; };
  for (std::size_t i = 0; i < bytes.size() / width; ++i) {
    switch (dtype) {
      case NIBBLE_INT32: put(bytes, i, static_cast<std::int32_t>(integer())); break;
      case NIBBLE_INT64: put(bytes, i, integer()); break;
      case NIBBLE_FLOAT32: put(bytes, i, real()); break;
      case NIBBLE_FLOAT64: put(bytes, i, static_cast<double>(real())); break;
      // Between 0.5 and 2, of either sign.
      case NIBBLE_FLOAT16:
        put(bytes, i, static_cast<std::uint16_t>(0x3800U + draw.below(0x800) + (draw.below(2) << 15U)));
        break;
      case NIBBLE_BOOL: bytes[i] = static_cast<std::uint8_t>(draw.below(2)); break;
      default: bytes[i] = static_cast<std::uint8_t>(draw.below(256)); break;
    }
  }
}

/// Inputs as the model wants them, each with memory of its own. `is_odd`: some lie about one thing.
inline Inputs inputs_of(nibble_model* model, Draw& draw, bool is_odd) {
  Inputs inputs;
  const auto count = nibble_model_input_count(model);
  inputs.tensors.resize(count);
  inputs.bytes.resize(count);
  const bool is_smaller = draw.one_in(3);
  for (std::size_t i = 0; i < count; ++i) {
    auto& tensor = inputs.tensors[i];
    if (!nibble_model_input(model, i, &tensor)) report(sentence("nibble_model_input"));
    if (tensor.is_int != 0) tensor.integer = static_cast<std::int64_t>(draw.below(5)) - 1;
    if (is_odd && draw.one_in(4)) tensor.dtype = static_cast<std::int32_t>(draw.below(10)) - 1;
    if (is_odd && draw.one_in(8)) tensor.rank = static_cast<std::uint32_t>(draw.below(10));
    Size elements = 1;
    for (std::uint32_t d = 0; d < std::min<std::uint32_t>(tensor.rank, NIBBLE_MAX_RANK); ++d) {
      auto& size = tensor.shape[d];
      if (is_smaller && size > 0) size -= static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(size) + 1));
      if (is_odd && draw.one_in(16)) size = static_cast<std::int64_t>(draw.below(2) << 62U) - 1;
      elements = elements * Size(size < 0 ? 0 : static_cast<std::uint64_t>(size));
    }
    const auto bytes = elements * width_of(tensor.dtype);
    auto& memory = inputs.bytes[i];
    if (tensor.is_int == 0) memory.resize(bytes.fits(limits().max_device_bytes) ? bytes.unchecked() : 64);
    if (is_odd && draw.one_in(8)) memory.resize(memory.size() / 2);
    fill(memory, tensor.dtype, draw);
    tensor.data = is_odd && draw.one_in(16) ? nullptr : memory.data();
    tensor.bytes = memory.size();
    if (is_odd && draw.one_in(16)) tensor.word = "complex128";
    if (is_odd && draw.one_in(16)) tensor.is_int = 1 - tensor.is_int;
  }
  if (is_odd && draw.one_in(8)) inputs.tensors.resize(draw.below(4));
  return inputs;
}

struct Results {
  bool is_done = false;
  std::vector<nibble_tensor> tensors = {};
  std::vector<std::vector<std::uint8_t>> bytes = {};
};

/// In steps, with outputs that are just as large as they must be, or (`odd`) not. In halves or not.
inline Results run(nibble_session* session, std::size_t outputs, const Inputs& inputs, Draw* odd = nullptr,
                   bool in_halves = false) {
  Results results;
  if (!nibble_session_set_inputs(session, inputs.tensors.data(), inputs.tensors.size())) {
    (void)sentence("nibble_session_set_inputs");
    return results;
  }
  results.tensors.resize(outputs);
  results.bytes.resize(outputs);
  for (std::size_t i = 0; i < outputs; ++i) {
    auto& tensor = results.tensors[i];
    if (!nibble_session_output(session, i, &tensor)) report(sentence("nibble_session_output"));
    std::uint64_t bytes = tensor.is_int != 0 ? sizeof(std::int64_t) : width_of(tensor.dtype);
    for (std::uint32_t d = 0; d < tensor.rank; ++d) bytes *= static_cast<std::uint64_t>(tensor.shape[d]);
    if (odd != nullptr && odd->one_in(4)) bytes = odd->below(bytes + 2);
    if (odd != nullptr && odd->one_in(8)) tensor.dtype = static_cast<std::int32_t>(odd->below(10)) - 1;
    results.bytes[i].resize(bytes);
    tensor.data = results.bytes[i].data();
    tensor.bytes = bytes;
  }
  if (!in_halves) {
    results.is_done = nibble_session_execute(session, results.tensors.data(), outputs);
    if (!results.is_done) (void)sentence("nibble_session_execute");
    return results;
  }
  if (!nibble_session_submit(session, results.tensors.data(), outputs)) {
    (void)sentence("nibble_session_submit");
    return results;
  }
  if (nibble_session_reset(session) || nibble_session_submit(session, results.tensors.data(), outputs)) {
    report("a session with a call in flight did something else");
  }
  results.is_done = nibble_session_wait(session);
  if (!results.is_done) (void)sentence("nibble_session_wait");
  return results;
}

inline float half(std::uint16_t bits) {
  const int exponent = bits >> 10U & 31U;
  const float fraction = static_cast<float>(bits & 1023U) / 1024.0F;
  const float sign = bits >> 15U != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0F + fraction, exponent - 15));
}

inline double element(const nibble_tensor& tensor, const std::vector<std::uint8_t>& bytes, std::size_t i) {
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  };
  switch (tensor.is_int != 0 ? NIBBLE_INT64 : tensor.dtype) {
    case NIBBLE_INT32: return get(std::int32_t{});
    case NIBBLE_INT64: return static_cast<double>(get(std::int64_t{}));
    case NIBBLE_FLOAT32: return get(float{});
    case NIBBLE_FLOAT64: return get(double{});
    case NIBBLE_FLOAT16: return half(get(std::uint16_t{}));
    case NIBBLE_INT8: return static_cast<std::int8_t>(bytes[i]);
    default: return bytes[i];
  }
}

/// Whether a float has no more digits than float16: a program may compute in float16 and give out float32.
inline bool has_half_digits(double value) {
  std::uint32_t bits = 0;
  const auto number = static_cast<float>(value);
  std::memcpy(&bits, &number, sizeof(bits));
  return (bits & 0x1fffU) == 0;
}

/// Sums may be done in another order where linears were joined, so numbers are equal but for rounding.
inline void compare(const Results& with, const Results& without, std::size_t call) {
  for (std::size_t o = 0; o < with.tensors.size(); ++o) {
    const auto& tensor = with.tensors[o];
    const auto width = tensor.is_int != 0 ? sizeof(std::int64_t) : width_of(tensor.dtype);
    if (with.bytes[o].size() != without.bytes[o].size()) report(fmt::format("output {} has another size", o));
    double largest = 1;
    bool is_half = true;
    for (std::size_t i = 0; i < without.bytes[o].size() / width; ++i) {
      const auto value = std::abs(element(tensor, without.bytes[o], i));
      is_half = is_half && has_half_digits(value);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    const double tolerance = (is_half ? 1e-2 : 1e-4) * largest;
    for (std::size_t i = 0; i < with.bytes[o].size() / width; ++i) {
      const auto a = element(tensor, with.bytes[o], i);
      const auto b = element(tensor, without.bytes[o], i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance) continue;
      report(fmt::format("call {}: element {} of output {} is {} with passes, but {} without", call, i, o, a, b));
    }
  }
}

}  // namespace nibble::test
