// Behind the door: blobs whose graphs are well-formed, and that no exporter makes.
#include "plan_and_step.hpp"
#include "structure.hpp"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  return nibble::test::mutate(data, size, most, seed, nibble::test::changed_blob);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto graph = nibble::read_blob(std::as_bytes(std::span(data, size)), nibble::test::size_in_key);
  // What cannot be read is for fuzz_blob: here it would only fill the corpus.
  if (!graph) return -1;
  const auto seed = nibble::test::seed_of({data, size});
  const auto kind = seed % 3 == 0 ? nibble::AdapterKind::cpu : nibble::AdapterKind::discrete;
  nibble::test::plan_and_step(std::move(*graph), kind, seed);
  return 0;
}
