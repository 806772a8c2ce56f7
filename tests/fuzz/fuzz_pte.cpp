// The door of Nibble's own API: a whole .pte file.
#include <cstdint>

#include "ops/registry.hpp"
#include "plan/stepper.hpp"
#include "program/program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto program = nibble::read_program(std::as_bytes(std::span(data, size)));
  if (!program) return 0;
  (void)nibble::Plan::make(std::move(program->graph), nibble::DeviceProfile{}, {}, nibble::ops::registry());
  return 0;
}
