// What a program takes, against what it may take. Planning pays as it goes, so that a program beyond a limit is refused
// before it has taken much more.
#pragma once

#include "graph/graph.hpp"
#include "nibble/options.hpp"

namespace nibble {

/// One limit, and what was paid of it.
class Account {
 public:
  /// `most` is the option's value, `otherwise` what 0 stands for.
  Account(std::string_view option, std::string_view what, std::uint64_t most, std::uint64_t otherwise)
      : option_(option), what_(what), most_(most != 0 ? most : otherwise) {}

  Status pay(Size amount) {
    paid_ = paid_ + amount;
    if (paid_.fits(most_)) return {};
    return refuse();
  }
  std::uint64_t paid() const { return paid_.unchecked(); }
  std::uint64_t left() const { return paid_.fits(most_) ? most_ - paid_.unchecked() : 0; }

 private:
  std::unexpected<Error> refuse() const;

  std::string_view option_;
  std::string_view what_;
  std::uint64_t most_;
  Size paid_ = 0;
};

struct Ledger {
  explicit Ledger(const Options& options);

  /// For the graph itself, and for what planning and a session keep of each value, use and node.
  Status pay_for(const Graph& graph);

  Account nodes;
  Account host;
  Account device;
  Account dispatches;
};

}  // namespace nibble
