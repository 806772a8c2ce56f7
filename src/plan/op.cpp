#include "plan/op.hpp"

#include <algorithm>

namespace nibble {

const Op* find_op(Registry registry, std::string_view name) {
  for (const auto& family : registry) {
    const auto found = std::ranges::find(family.ops, name, &Op::name);
    if (found != family.ops.end()) return &*found;
  }
  return nullptr;
}

std::vector<const Choice*> all_choices(Registry registry) {
  std::vector<const Choice*> all;
  for (const auto& family : registry) {
    for (const auto* choice : family.choices) {
      if (std::ranges::find(all, choice) == all.end()) all.push_back(choice);
    }
  }
  return all;
}

}  // namespace nibble
