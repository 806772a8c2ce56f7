// Plans as the records that cross to TypeScript.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "plan/stepper.hpp"
#include "program/program.hpp"
#include "wire.hpp"

namespace nibble::web {

wire::Shape shape_record(const Shape& shape);
DeviceProfile profile_of(const wire::Profile& record);
Result<Options> options_of(const wire::Options& record);

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
  /// `plan` and `program` must stay where they are. The program's graph is not looked at: the plan has it.
  const wire::Layout* fill(const Plan& plan, const Program& program);

 private:
  void fill_memory(const Plan& plan);
  void fill_boundary(const Layout& layout);
  void fill_method(const Program& program);

  wire::Layout record_;
  PipelineRecords pipelines_;
  std::vector<wire::Buffer> buffers_;
  std::vector<wire::Constant> constants_;
  std::vector<wire::Upload> uploads_;
  std::vector<wire::GraphInput> graph_inputs_;
  std::vector<wire::GraphOutput> graph_outputs_;
  std::vector<wire::MethodInput> inputs_;
  std::vector<wire::MethodOutput> outputs_;
  std::vector<wire::ConstantMethod> constant_methods_;
  std::deque<std::vector<wire::IndexCheck>> checks_;
  std::deque<std::vector<wire::Text>> values_;
};

}  // namespace nibble::web
