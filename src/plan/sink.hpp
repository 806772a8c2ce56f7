// Receives what an op's lowering emits: at load the planner, at run time the current call.
#pragma once

#include "plan/kernel.hpp"
#include "plan/variant.hpp"

namespace nibble {

/// What a reported fault means. There is one site for each tensor of indices that kernels check.
struct FaultSite {
  std::string_view arg;
  ValueId indices = 0;
  std::int64_t rows = 0;
};

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  /// The index of the variant to use.
  virtual std::size_t choose(const Choice& choice, const Facts& facts) = 0;
  virtual Status dispatch(const Kernel& kernel) = 0;
  /// The node needs working memory: at most `bytes` in any call with the same choices.
  virtual Status reserve(std::uint64_t bytes) = 0;
  /// The host checks the indices in an input.
  virtual void check_input(std::size_t input, const IndexCheck& check) = 0;
  /// The kernel checks indices. Gives the site's number.
  virtual std::uint32_t add_fault_site(const FaultSite& site) = 0;
  /// After the call, `rows` entries along dimension `axis` of a state are in use.
  virtual void use_rows(ValueId state, std::size_t axis, std::int64_t rows) = 0;
};

}  // namespace nibble
