#include "web/session.hpp"

#include <algorithm>
#include <array>

#include "program/checks.hpp"

namespace nibble::web {

Session::Session(std::shared_ptr<const Plan> plan)
    : stepper_(std::move(plan)),
      host_data_(stepper_.plan().layout().inputs.size()),
      outputs_(stepper_.plan().layout().outputs.size()) {
  dispatches_.reserve(stepper_.plan().layout().max_dispatches);
}

Status Session::set_shape(std::size_t input, const wire::Shape& record) {
  Shape shape;
  for (std::uint32_t i = 0; i < record.rank; ++i) shape.push_back(static_cast<std::int64_t>(record.dims[i]));
  return stepper_.set_shape(input, shape);
}

Status Session::set_int(std::size_t input, std::int64_t value) { return stepper_.set_int(input, value); }

Result<const std::int32_t*> Session::host_data(std::size_t input, std::size_t count) {
  auto& elements = host_data_[input];
  if (elements.capacity() < count) TRY(reserve(elements, count, "elements of an input"));
  elements.resize(count);
  stepper_.set_host_data(input, elements);
  return elements.data();
}

Result<const wire::Step*> Session::update() {
  TRY(stepper_.update());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (stepper_.plan().layout().outputs[i].is_symint) {
      outputs_[i].value = stepper_.output_int(i);
    } else {
      outputs_[i].shape = shape_record(stepper_.output_shape(i));
    }
  }
  step_.outputs = std::span<const wire::LiveOutput>(outputs_);
  if (version_ == stepper_.version()) return &step_;

  dispatches_.clear();
  for (const auto* from : stepper_.dispatches()) {
    dispatches_.push_back({.pipeline = from->pipeline,
                           .grid = from->grid,
                           .binding_count = from->binding_count,
                           .bindings = from->bindings});
  }
  const auto params = stepper_.params();
  version_ = stepper_.version();
  step_.version = static_cast<std::uint32_t>(version_);
  step_.dispatches = std::span<const wire::Dispatch>(dispatches_);
  step_.params = std::span(reinterpret_cast<const std::uint8_t*>(params.data()), params.size());
  return &step_;
}

Error Session::fault(std::uint32_t node, std::uint32_t position, std::uint32_t value, std::uint32_t site) const {
  const std::array<std::uint32_t, kFaultWords> words{node, position, value, site};
  return stepper_.describe_fault(words);
}

Error Session::bad_index(std::size_t input, std::size_t check, std::uint64_t position, std::int64_t value) const {
  return stepper_.describe_index(stepper_.plan().layout().inputs[input].checks[check], input, position, value);
}

}  // namespace nibble::web
