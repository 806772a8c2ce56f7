// The door of Nibble's own API: a whole .pte file.
#include "plan_and_step.hpp"
#include "structure.hpp"

/// Every other change is of bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  return nibble::test::mutate(data, size, most, seed / 2, nibble::test::changed_pte);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto program = nibble::read_program(std::as_bytes(std::span(data, size)));
  if (!program) return 0;
  nibble::test::plan_and_step(std::move(program->graph), nibble::AdapterKind::discrete,
                              nibble::test::seed_of({data, size}));
  return 0;
}
