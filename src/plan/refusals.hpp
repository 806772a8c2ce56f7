// Why a program cannot run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/status.hpp"

namespace nibble {

/// Why a program cannot be planned, each sentence once.
struct Refusals {
  struct Refusal {
    Error error;
    std::size_t count = 1;  ///< how many operators give this reason
  };
  /// More sentences than these help nobody.
  static constexpr std::size_t kMost = 1000;

  std::vector<Refusal> all = {};
  std::map<std::string, std::size_t, std::less<>> places = {};  ///< in `all`, by sentence

  void add(Error error);
};

}  // namespace nibble
