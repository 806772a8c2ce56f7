// The door of Nibble's own API: a whole .pte file.
#include <cstdint>

#include "plan_and_step.hpp"
#include "program/program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto program = nibble::read_program(std::as_bytes(std::span(data, size)));
  if (!program) return 0;
  nibble::test::plan_and_step(std::move(program->graph), nibble::AdapterKind::discrete,
                              nibble::test::seed_of({data, size}));
  return 0;
}
