// A program's inputs and outputs in the command's own memory.
#pragma once

#include <vector>

#include "cli/commands.hpp"
#include "cli/npy.hpp"
#include "nibble/nibble.hpp"

namespace nibble::cli {

/// Inputs in the order of the program, with whatever memory they need.
struct HostInputs {
  std::vector<Array> arrays;
  std::vector<HostTensor> tensors;
};

/// Arrays go to the tensor inputs and integers to the integer inputs, each in order.
Result<HostInputs> bind_inputs(const std::vector<TensorInfo>& wanted, std::vector<Array> arrays,
                               const std::vector<std::int64_t>& ints);

/// Random numbers in [-1, 1) for floats, ids below `index_rows` for indices, 0 for other integers.
Result<Array> random_array(DType dtype, const Shape& shape, std::int64_t index_rows, std::uint64_t seed);

/// Memory for all outputs at their live shapes, after Session::set_inputs().
struct HostOutputs {
  std::vector<Array> arrays;
  std::vector<HostOutput> outputs;
};
Result<HostOutputs> make_outputs(const Model& model, const Session& session);

/// The first `most` elements as text.
std::vector<std::string> first_values(const Array& array, std::size_t most);

/// The value below which `share` of the sorted samples lie.
double quantile(const std::vector<double>& sorted, double share);

}  // namespace nibble::cli
