#include "web/session.hpp"

#include <algorithm>
#include <array>

#include "program/checks.hpp"

namespace nibble::web {
namespace {

/// A text that the caller put into this memory.
std::string_view text_at(std::uint32_t address, std::uint32_t bytes) {
  return {reinterpret_cast<const char*>(static_cast<std::uintptr_t>(address)), bytes};
}

}  // namespace

Session::Session(std::shared_ptr<const Boundary> boundary)
    : boundary_(std::move(boundary)),
      stepper_(boundary_->plan()),
      host_data_(stepper_.plan().layout().inputs.size()),
      taken_(boundary_->signature().inputs.size()),
      taken_records_(taken_.size()),
      outputs_(stepper_.plan().layout().outputs.size()),
      states_(stepper_.plan().layout().states.size()) {
  taken_record_.inputs = std::span<const wire::TakenInput>(taken_records_);
  dispatches_.reserve(stepper_.plan().layout().max_dispatches);
}

Result<const wire::GivenInput*> Session::given(std::size_t count) {
  if (count != taken_.size()) return std::unexpected(wrong_input_count(count, taken_.size()));
  // One more than there are: the address of none would be null.
  if (given_records_.capacity() <= count) TRY(reserve(given_records_, count + 1, "inputs of a call"));
  given_records_.resize(count);
  return given_records_.data();
}

Result<const wire::Taken*> Session::take() {
  if (given_records_.size() != taken_.size()) {
    return std::unexpected(wrong_input_count(given_records_.size(), taken_.size()));
  }
  given_.clear();
  for (const auto& record : given_records_) {
    if (record.shape.rank > Shape::kMaxRank) {
      return std::unexpected(too_many_dimensions(boundary_->label(given_.size()), record.shape.rank));
    }
    if (record.kind > static_cast<std::uint32_t>(GivenInput::Kind::number)) {
      return std::unexpected(no_such("kind of input", record.kind));
    }
    if (record.dtype > static_cast<std::uint32_t>(DType::i64)) return std::unexpected(no_such("type", record.dtype));
    auto& one = given_.emplace_back();
    one.kind = static_cast<GivenInput::Kind>(record.kind);
    one.dtype = static_cast<DType>(record.dtype);
    one.word = text_at(record.word, record.word_bytes);
    one.count = record.count;
    if (record.has_shape != 0) one.shape = shape_of(record.shape);
    if (record.has_integer != 0) one.integer = record.integer;
  }
  TRY(boundary_->take(given_, taken_));
  TRY(boundary_->set(stepper_, taken_));
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    taken_records_[i] = {.shape = shape_record(taken_[i].shape), .integer = taken_[i].integer};
  }
  return &taken_record_;
}

Result<const std::int32_t*> Session::host_data(std::size_t input, std::size_t count) {
  if (input >= host_data_.size()) return std::unexpected(no_such("input", input));
  auto& elements = host_data_[input];
  // One more than there are: the address of none would be null.
  if (elements.capacity() <= count) TRY(reserve(elements, count + 1, "elements of an input"));
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
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].rows = static_cast<std::uint64_t>(stepper_.state_rows(i));
  }
  step_.outputs = std::span<const wire::LiveOutput>(outputs_);
  step_.states = std::span<const wire::LiveState>(states_);
  if (version_ == stepper_.version()) return &step_;

  dispatches_.clear();
  for (const auto* from : stepper_.dispatches()) {
    dispatches_.push_back(dispatch_record(*from));
  }
  const auto params = stepper_.params();
  version_ = stepper_.version();
  step_.version = static_cast<std::uint32_t>(version_);
  step_.dispatches = std::span<const wire::Dispatch>(dispatches_);
  step_.batches = stepper_.batches();
  step_.params = std::span(reinterpret_cast<const std::uint8_t*>(params.data()), params.size());
  return &step_;
}

Error Session::fault(std::uint32_t node, std::uint32_t position, std::uint32_t value, std::uint32_t site) const {
  const std::array<std::uint32_t, kFaultWords> words{node, position, value, site};
  return stepper_.describe_fault(words);
}

Error Session::bad_element(std::size_t graph_input, const wire::BadElement& record) const {
  if (graph_input >= host_data_.size()) return no_such("input", graph_input);
  BadElement element{.kind = static_cast<BadElement::Kind>(record.kind),
                     .position = record.position,
                     .word = text_at(record.word, record.word_bytes)};
  if (record.has_value != 0) element.value = record.value;
  return boundary_->bad_element(stepper_, graph_input, element);
}

}  // namespace nibble::web
