#include "plan/profile.hpp"

namespace nibble {

std::string_view to_string(AdapterKind kind) noexcept {
  switch (kind) {
    case AdapterKind::discrete: return "discrete";
    case AdapterKind::integrated: return "integrated";
    case AdapterKind::cpu: return "cpu";
    case AdapterKind::unknown: return "unknown";
  }
  return "unknown";
}

}  // namespace nibble
