#include "web/program_reader.hpp"

#include <utility>

#include "graph/status.hpp"
#include "ops/registry.hpp"
#include "plan/live_rows.hpp"

namespace nibble::web {
namespace {

Error out_of_order() {
  return {ErrorCode::invalid_argument, "a program is read in the order head, container, blob and plan, once"};
}

}  // namespace

Status ProgramReader::begin(Step step) {
  if (next_ != step) return std::unexpected(out_of_order());
  next_ = Step::none;
  return {};
}

Result<const wire::FileRange*> ProgramReader::head(std::span<const std::byte> first_bytes, std::uint64_t file_size) {
  TRY(begin(Step::head));
  TRY_ASSIGN(head_, read_head(first_bytes, file_size));
  range_ = {.offset = 0, .size = head_.program_size};
  next_ = Step::container;
  return &range_;
}

Result<const wire::FileRange*> ProgramReader::container(std::span<const std::byte> bytes, std::string_view method) {
  TRY(begin(Step::container));
  TRY_ASSIGN(container_, read_container(bytes, head_, method));
  range_ = {.offset = container_.blob.offset, .size = container_.blob.size};
  next_ = Step::blob;
  return &range_;
}

Status ProgramReader::blob(std::span<const std::byte> bytes) {
  TRY(begin(Step::blob));
  TRY_ASSIGN(Graph graph, read_blob(bytes, named_sizes(container_)));
  TRY_ASSIGN(program_, join(std::exchange(container_, {}), std::move(graph)));
  next_ = Step::plan;
  return {};
}

Result<const wire::Layout*> ProgramReader::plan(const wire::Profile& profile, const wire::Options& given) {
  TRY(begin(Step::plan));
  const auto here = tuned_on(profile);
  TRY_ASSIGN(options_, options_of(given, here));
  auto tuning = usable_tuning(std::exchange(options_.tuning, {}), here);
  options_.tuning = tuning.rows;
  TRY_ASSIGN(auto plan, Plan::make(std::move(program_.graph), profile_of(profile), options_, ops::registry()));
  boundary_ = std::make_shared<Boundary>(std::move(program_.signature), std::move(plan));
  records_ = std::make_unique<LayoutRecords>();
  by_rows_ = counts_by_rows(*boundary_->plan());
  TRY_ASSIGN(const auto* layout, records_->fill(*boundary_, program_, by_rows_, std::move(tuning)));
  next_ = Step::name;
  return layout;
}

Status ProgramReader::name_input(std::size_t input, std::string_view name) {
  if (next_ != Step::name) return std::unexpected(out_of_order());
  if (input >= boundary_->signature().inputs.size()) return std::unexpected(no_such("input", input));
  boundary_->name_input(input, name);
  return {};
}

Result<std::shared_ptr<const Boundary>> ProgramReader::boundary() const {
  if (next_ != Step::name) return std::unexpected(out_of_order());
  return boundary_;
}

Result<const wire::StateRanges*> ProgramReader::live_ranges(std::span<const std::uint64_t> rows) {
  if (next_ != Step::name) return std::unexpected(out_of_order());
  const Layout& layout = boundary_->plan()->layout();
  if (rows.size() != layout.states.size()) return std::unexpected(no_such("state", rows.size()));
  std::vector<std::int64_t> in_use;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& desc = layout.states[i];
    const auto most = desc.row_axis == StateDesc::kNoRows ? 0 : desc.shape[static_cast<std::size_t>(desc.row_axis)];
    if (rows[i] > static_cast<std::uint64_t>(most))
      return std::unexpected(no_such("row", static_cast<std::size_t>(rows[i])));
    in_use.push_back(static_cast<std::int64_t>(rows[i]));
  }
  ranges_.clear();
  for (const auto& range : nibble::live_ranges(layout, by_rows_, in_use)) {
    ranges_.push_back({.buffer = range.buffer, .offset = range.offset, .bytes = range.bytes});
  }
  ranges_record_.ranges = std::span<const wire::StateRange>(ranges_);
  return &ranges_record_;
}

}  // namespace nibble::web
