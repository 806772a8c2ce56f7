// The door that ExecuTorch knocks at: a delegate blob with a lookup of named data.
#include "plan_and_step.hpp"
#include "structure.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto graph = nibble::read_blob(std::as_bytes(std::span(data, size)), nibble::test::size_in_key);
  if (!graph) return 0;
  nibble::test::plan_and_step(std::move(*graph), nibble::AdapterKind::cpu, nibble::test::seed_of({data, size}));
  return 0;
}
