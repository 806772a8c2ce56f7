// One user's live shapes, and what a call with them does, as records that TypeScript reads in place.
#pragma once

#include <memory>
#include <vector>

#include "web/records.hpp"

namespace nibble::web {

/// In the steady state nothing here allocates.
class Session {
 public:
  explicit Session(std::shared_ptr<const Boundary> boundary);

  /// Room for what a call is given, which the caller fills before take().
  Result<const wire::GivenInput*> given(std::size_t count);
  Result<const wire::Taken*> take();
  /// Memory for the elements of an input that the planner reads; they must be there before update().
  Result<const std::int32_t*> host_data(std::size_t input, std::size_t count);

  const Boundary& boundary() const { return *boundary_; }
  /// See Stepper::force().
  void force(const Choice* choice, std::size_t variant) { stepper_.force(choice, variant); }
  /// What the next call does.
  Result<const wire::Step*> update();

  Error fault(std::uint32_t node, std::uint32_t position, std::uint32_t value, std::uint32_t site) const;
  Error bad_element(std::size_t graph_input, const wire::BadElement& element) const;

 private:
  std::shared_ptr<const Boundary> boundary_;
  Stepper stepper_;
  std::uint64_t version_ = 0;
  std::vector<std::vector<std::int32_t>> host_data_;
  std::vector<wire::GivenInput> given_records_;
  std::vector<GivenInput> given_;
  std::vector<TakenInput> taken_;
  std::vector<wire::TakenInput> taken_records_;
  wire::Taken taken_record_;
  std::vector<wire::Dispatch> dispatches_;
  std::vector<wire::LiveOutput> outputs_;
  std::vector<wire::LiveState> states_;
  wire::Step step_;
};

}  // namespace nibble::web
