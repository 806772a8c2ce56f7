// Plans as the records that cross to TypeScript.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "boundary/boundary.hpp"
#include "plan/stepper.hpp"
#include "program/program.hpp"
#include "wire.hpp"

namespace nibble::web {

/// The error for a number that names nothing.
Error no_such(std::string_view what, std::size_t number);

wire::Shape shape_record(const Shape& shape);
/// At most Shape::kMaxRank dimensions.
Shape shape_of(const wire::Shape& record);
TunedOn tuned_on(const wire::Profile& record);
DeviceProfile profile_of(const wire::Profile& record);
/// Tunings of another version than `here` are not read, but for what they are for.
Result<Options> options_of(const wire::Options& record, const TunedOn& here);
wire::Dispatch dispatch_record(const Dispatch& from);

/// Pipelines as records. They point at the texts of the descriptions, which must stay where they are.
class PipelineRecords {
 public:
  std::span<const wire::Pipeline> fill(std::span<const PipelineDesc> descs);

 private:
  struct Lists {
    std::vector<std::uint32_t> bindings;
    std::vector<wire::Override> overrides;
  };
  std::deque<Lists> lists_;
  std::vector<wire::Pipeline> records_;
};

/// A Layout as a record, and all that it points at.
class LayoutRecords {
 public:
  /// `boundary` and `program` must stay where they are. Of the program, only what they do not have is looked at.
  /// `by_rows` is that of counts_by_rows(). `tuning`: what became of the caller's.
  Result<const wire::Layout*> fill(const Boundary& boundary, const Program& program,
                                   std::span<const std::uint8_t> by_rows, UsableTuning tuning = {});

 private:
  void fill_memory(const Plan& plan);
  void fill_preparation(std::span<const Dispatch> dispatches, std::uint64_t batch_work);
  void fill_graph(const Boundary& boundary);
  void fill_method(const MethodSignature& signature);
  void fill_states(const Layout& layout, std::span<const std::uint8_t> by_rows);
  void fill_constant_methods(const Program& program);

  wire::Layout record_;
  std::string note_;
  std::vector<wire::Text> notes_;
  PipelineRecords pipelines_;
  std::vector<wire::Buffer> buffers_;
  std::vector<wire::Constant> constants_;
  std::vector<wire::Upload> uploads_;
  std::vector<wire::Text> ops_;  ///< per node
  std::vector<wire::Dispatch> preparation_;
  std::vector<std::uint8_t> preparation_params_;
  std::vector<std::uint32_t> preparation_batches_;
  std::vector<wire::GraphInput> graph_inputs_;
  std::vector<wire::GraphOutput> graph_outputs_;
  std::vector<wire::MethodInput> inputs_;
  std::vector<wire::MethodOutput> outputs_;
  std::vector<wire::State> states_;
  std::vector<wire::ConstantMethod> constant_methods_;
  std::deque<std::vector<wire::Text>> values_;
};

}  // namespace nibble::web
