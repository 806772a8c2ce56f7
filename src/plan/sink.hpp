// Where what an op's function says goes: into the plan while it is made, or into a call.
#pragma once

#include "plan/kernel.hpp"
#include "plan/variant.hpp"

namespace nibble {

/// What a fault in a node's dispatches means: one site for each tensor of indices that kernels check.
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

  /// The variant to take.
  virtual std::size_t choose(const Choice& choice, const Facts& facts) = 0;
  virtual Status dispatch(const Kernel& kernel) = 0;
  /// The node needs working memory: at most so many bytes in any call that makes the same choices.
  virtual Status reserve(std::uint64_t bytes) = 0;
  /// The host checks the indices in an input.
  virtual void check_input(std::size_t input, const IndexCheck& check) = 0;
  /// The kernel checks indices; gives the site's number.
  virtual std::uint32_t add_fault_site(const FaultSite& site) = 0;
  /// After the call, `rows` entries along dimension `axis` of a state are in use.
  virtual void use_rows(ValueId state, std::size_t axis, std::int64_t rows) = 0;
};

}  // namespace nibble
