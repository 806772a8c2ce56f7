// A kernel's WGSL is a file in src/ops. What differs between its uses (element types, enables, a few lines that the
// op names) is a prelude that is written in front of it here; the file itself is never edited.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nibble {

struct Shader {
  std::string_view name;
  std::string_view body;
};

}  // namespace nibble
