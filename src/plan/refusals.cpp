#include "plan/refusals.hpp"

#include <utility>

namespace nibble {

void Refusals::add(Error error) {
  if (const auto found = places.find(error.message); found != places.end()) {
    ++all[found->second].count;
  } else if (all.size() < kMost) {
    places.emplace(error.message, all.size());
    all.push_back({std::move(error)});
  }
}

}  // namespace nibble
