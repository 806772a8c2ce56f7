// What ExecuTorch hands to a delegate's call, as Nibble's inputs and outputs.
#pragma once

#include <executorch/runtime/core/evalue.h>

#include <cstddef>

#include "nibble/nibble.hpp"

namespace nibble {

/// Input `index`, from a tensor or an integer.
Result<HostTensor> input_of(const ::executorch::runtime::EValue& value, std::size_t index);

/// The memory of output `index`, after resizing its tensor to `shape`.
Result<HostOutput> output_of(::executorch::runtime::EValue& value, std::size_t index, const Shape& shape);

}  // namespace nibble
