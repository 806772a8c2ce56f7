// NumPy's .npy files: one array each. Little-endian, row-major arrays of the types that programs take.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "graph/status.hpp"

namespace nibble::cli {

/// Memory whose size comes from a file or a shape.
struct HostMemory {
  std::unique_ptr<std::byte[]> data;
  std::size_t bytes = 0;

  /// Zeros; `what` says in the error what there was no memory for.
  static Result<HostMemory> make(std::size_t bytes, std::string_view what);
  std::span<std::byte> span() const { return {data.get(), bytes}; }
};

struct Array {
  DType dtype = DType::f32;
  Shape shape;
  HostMemory memory;
};

Result<Array> read_npy(const std::string& path);
Status write_npy(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> data);

}  // namespace nibble::cli
