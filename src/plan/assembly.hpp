// The WGSL of a kernel: its storage buffers with functions to load and store (access.wgsl), what every kernel may call
// (prelude.wgsl), and the shader with all modules that it uses and all that fill its slots.
#pragma once

#include <string>
#include <vector>

#include "graph/status.hpp"
#include "plan/kernel.hpp"
#include "plan/profile.hpp"

namespace nibble {

class Assembly {
 public:
  /// `op` is who errors name.
  Assembly(const Kernel& kernel, std::string_view op);

  /// All slots are filled, all lists have room, and the device has what the modules need.
  Status check(const DeviceProfile& profile) const;
  std::string text(const DeviceProfile& profile) const;

 private:
  std::string_view name() const { return kernel_.shader.get().name; }
  bool needs(bool Shader::* feature) const;
  const Shader* fill_of(std::string_view slot) const;
  /// Each module once, after the one that asks for it.
  void add(const Shader& module);

  const Kernel& kernel_;
  std::string_view op_;
  std::vector<const Shader*> modules_;
};

}  // namespace nibble
