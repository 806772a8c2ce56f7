// Inputs and outputs of programs, as plain types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nibble/types.hpp"

namespace nibble {

/// One input or output of a program.
struct TensorInfo {
  DType dtype = DType::f32;  ///< what the host side holds
  Shape shape;               ///< the shape, or the largest one where it is dynamic
  bool dynamic = false;      ///< dimensions may be smaller
  bool is_int = false;       ///< a plain integer, not a tensor
};

/// A method that returns values without computing, such as get_vocab_size.
struct ConstantMethod {
  std::string name;
  std::vector<std::string> values;  ///< as JSON: a number, true, false, "text" or a list
};

/// Host memory, row-major. For integer inputs (`TensorInfo::is_int`) set `is_int` and `integer` instead.
struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  const void* data = nullptr;
  bool is_int = false;
  std::int64_t integer = 0;
  /// Set this when the input cannot be expressed (an unknown element type, or an integer beyond int64). The error then
  /// quotes it.
  std::string_view word = {};
};

/// Where an output goes: memory for at least as many elements of `dtype` as the live shape has.
struct HostOutput {
  DType dtype = DType::f32;
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// An output with its own memory. An integer output has `is_int` and `integer` instead.
struct HostArray {
  DType dtype = DType::f32;
  Shape shape;
  std::unique_ptr<std::byte[]> data;
  std::size_t bytes = 0;
  bool is_int = false;
  std::int64_t integer = 0;

  /// The elements, if T is the C++ type of `dtype`: float for float32, std::int64_t for int64, …
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.get()), bytes / sizeof(T)};
  }
};

/// A tensor that a session keeps from call to call, such as a KV cache.
struct StateInfo {
  std::string role;  ///< its argument name in the op that changes it, such as "key_cache"
  DType dtype = DType::f32;
  Shape shape;
  std::optional<std::size_t> row_axis;  ///< the dimension that calls fill from the front, if there is one
  std::int64_t rows = 0;                ///< how many of these rows are in use after the last call
};

/// GPU time of one dispatch.
struct DispatchTime {
  std::string op;
  std::string kernel;
  double microseconds = 0;
  std::uint32_t node = 0;  ///< in the planned graph
  double start = 0;        ///< in microseconds of std::chrono::steady_clock, as near as it can be told: see TraceEvent
};

}  // namespace nibble
