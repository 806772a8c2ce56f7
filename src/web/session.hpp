// One user's live shapes, and what a call with them does, as records that TypeScript reads in place.
#pragma once

#include <memory>
#include <vector>

#include "web/records.hpp"

namespace nibble::web {

/// In the steady state nothing here allocates.
class Session {
 public:
  explicit Session(std::shared_ptr<const Plan> plan);

  Status set_shape(std::size_t input, const wire::Shape& shape);
  Status set_int(std::size_t input, std::int64_t value);
  /// Memory for the elements of an input that the planner reads; they must be there before update().
  Result<const std::int32_t*> host_data(std::size_t input, std::size_t count);

  /// What the next call does.
  Result<const wire::Step*> update();

  Error fault(std::uint32_t node, std::uint32_t position, std::uint32_t value, std::uint32_t site) const;
  Error bad_index(std::size_t input, std::size_t check, std::uint64_t position, std::int64_t value) const;

 private:
  Stepper stepper_;
  std::uint64_t version_ = 0;
  std::vector<std::vector<std::int32_t>> host_data_;
  std::vector<wire::Dispatch> dispatches_;
  std::vector<wire::LiveOutput> outputs_;
  wire::Step step_;
};

}  // namespace nibble::web
