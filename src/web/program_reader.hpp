// A program that arrives in pieces: its head, its container, its delegate's blob; then the plan for one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "web/records.hpp"

namespace nibble::web {

/// In the order of its functions; after one that failed there is no next. None of the bytes given is needed after the
/// call.
class ProgramReader {
 public:
  Result<const wire::FileRange*> head(std::span<const std::byte> first_bytes, std::uint64_t file_size);
  Result<const wire::FileRange*> container(std::span<const std::byte> bytes, std::string_view method);
  Status blob(std::span<const std::byte> bytes);
  Result<const wire::Layout*> plan(const wire::Profile& profile, const wire::Options& given);

  /// Errors say "input ids"; before the first session.
  Status name_input(std::size_t input, std::string_view name);
  Result<std::shared_ptr<const Boundary>> boundary() const;
  /// Of the plan.
  const Options& options() const { return options_; }
  /// The parts of a session's state that count, with so many rows of each state in use.
  Result<const wire::StateRanges*> live_ranges(std::span<const std::uint64_t> rows);

 private:
  enum class Step : std::uint8_t { head, container, blob, plan, name, none };
  /// Until the step is done, none may follow.
  Status begin(Step step);

  Step next_ = Step::head;
  ContainerHead head_;
  Container container_;
  Program program_;
  Options options_;
  std::shared_ptr<Boundary> boundary_;
  wire::FileRange range_;
  std::unique_ptr<LayoutRecords> records_;
  std::vector<std::uint8_t> by_rows_;
  std::vector<wire::StateRange> ranges_;
  wire::StateRanges ranges_record_;
};

}  // namespace nibble::web
