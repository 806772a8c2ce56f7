#include "web/program_reader.hpp"

#include <utility>

#include "graph/status.hpp"
#include "ops/registry.hpp"

namespace nibble::web {

Result<const wire::FileRange*> ProgramReader::head(std::span<const std::byte> first_bytes, std::uint64_t file_size) {
  TRY_ASSIGN(head_, read_head(first_bytes, file_size));
  range_ = {.offset = 0, .size = head_.program_size};
  return &range_;
}

Result<const wire::FileRange*> ProgramReader::container(std::span<const std::byte> bytes, std::string_view method) {
  TRY_ASSIGN(container_, read_container(bytes, head_, method));
  range_ = {.offset = container_.blob.offset, .size = container_.blob.size};
  return &range_;
}

Status ProgramReader::blob(std::span<const std::byte> bytes) {
  TRY_ASSIGN(Graph graph, read_blob(bytes, named_sizes(container_)));
  TRY_ASSIGN(program_, join(std::exchange(container_, {}), std::move(graph)));
  return {};
}

Result<const wire::Layout*> ProgramReader::plan(const wire::Profile& profile, const wire::Options& given) {
  TRY_ASSIGN(const Options options, options_of(given));
  TRY_ASSIGN(auto plan, Plan::make(std::move(program_.graph), profile_of(profile), options, ops::registry()));
  boundary_ = std::make_shared<Boundary>(std::move(program_.signature), std::move(plan));
  records_ = std::make_unique<LayoutRecords>();
  return records_->fill(*boundary_, program_);
}

}  // namespace nibble::web
