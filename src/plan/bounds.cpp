#include "plan/bounds.hpp"

#include <algorithm>

namespace nibble {
namespace {

constexpr Variant kBoundsVariants[] = {
    Variant("unchecked", {.traits = kFits}, {}, {}, {}, "all indices are known to be right"),
    Variant("checked", {}, {}, {}, {}, "right for all sizes"),
};

}  // namespace

const Choice kBounds{"bounds", kBoundsVariants};

bool is_proven(const Kernel& kernel) {
  return kernel.shader.get().proven && std::ranges::find(kernel.bind, Elem::atomics, [](const BufferArg& b) {
                                         return b.format.elem;
                                       }) == kernel.bind.end();
}

}  // namespace nibble
