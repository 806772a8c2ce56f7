// The door that ExecuTorch knocks at: a delegate blob with a lookup of named data.
#include <charconv>
#include <cstdint>

#include "plan_and_step.hpp"
#include "program/blob.hpp"

namespace {

/// There is no named data here: a key is the decimal number of bytes that it stands for (see make_seeds.cpp).
nibble::Result<std::uint64_t> size_in_key(std::string_view key) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), size);
  if (error == std::errc{} && end == key.data() + key.size()) return size;
  return std::unexpected(nibble::Error{nibble::ErrorCode::invalid_program, "no such data"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto graph = nibble::read_blob(std::as_bytes(std::span(data, size)), size_in_key);
  if (!graph) return 0;
  nibble::test::plan_and_step(std::move(*graph), nibble::AdapterKind::cpu, nibble::test::seed_of({data, size}));
  return 0;
}
