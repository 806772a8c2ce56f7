// Uses both public headers of an installed Nibble: asks for the adapters and loads a file that is not there.
#include <nibble/nibble.h>

#include <cstdio>
#include <nibble/nibble.hpp>
#include <string_view>
#include <type_traits>

// What stands behind a handle is nobody's business: a class whose members are all public would be an aggregate.
static_assert(!std::is_aggregate_v<nibble::Device>);
static_assert(!std::is_aggregate_v<nibble::Model>);
static_assert(!std::is_aggregate_v<nibble::Session>);

int main() {
  if (nibble::version() != std::string_view(nibble_version())) {
    std::puts("The C and the C++ API tell different versions.");
    return 1;
  }
  auto devices = nibble::devices();
  if (!devices) {
    std::printf("No list of adapters: %s\n", devices.error().message.c_str());
    return 1;
  }
  for (const auto& device : *devices)
    std::printf("%zu: %s (%s)\n", device.index, device.name.c_str(), device.kind.c_str());

  auto device = nibble::Device::open();
  if (!device) {
    std::printf("No adapter: %s\n", device.error().message.c_str());
    return 1;
  }
  auto model = nibble::Model::load(*device, "missing.pte");
  if (model || model.error().code != nibble::ErrorCode::io) {
    std::puts("Loading a file that is not there gave no io error.");
    return 1;
  }
  std::printf("Nibble %s: %s\n", nibble_version(), model.error().message.c_str());
  return 0;
}
