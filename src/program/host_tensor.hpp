// A tensor of a method, as ExecuTorch's half of the file describes it.
#pragma once

#include <string_view>

#include "program/container.hpp"
#include "program_generated.h"

namespace nibble {

/// `what` names it in errors.
Result<HostValue> read_host_tensor(const executorch_flatbuffer::Tensor& tensor, std::string_view what);

}  // namespace nibble
