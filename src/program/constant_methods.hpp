// Methods that compute nothing: they return numbers, booleans, strings or lists of them.
#pragma once

#include <vector>

#include "nibble/values.hpp"
#include "program/checks.hpp"

namespace executorch_flatbuffer {
struct ExecutionPlan;
struct Program;
}  // namespace executorch_flatbuffer

namespace nibble {

/// Whether the method has any instructions.
bool computes(const executorch_flatbuffer::ExecutionPlan& plan);

Result<std::vector<ConstantMethod>> read_constant_methods(const executorch_flatbuffer::Program& program,
                                                          Budget& budget);

}  // namespace nibble
