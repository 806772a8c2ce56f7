#include "web/records.hpp"

#include <algorithm>
#include <utility>

namespace nibble::web {

wire::Shape shape_record(const Shape& shape) {
  wire::Shape record{.rank = static_cast<std::uint32_t>(shape.rank())};
  std::ranges::copy(shape.dims(), record.dims.begin());
  return record;
}

DeviceProfile profile_of(const wire::Profile& record) {
  DeviceProfile profile;
  profile.kind = static_cast<AdapterKind>(record.kind);
  profile.limits.max_buffer_size = record.max_buffer_size;
  profile.limits.max_storage_binding_size = record.max_storage_binding_size;
  profile.limits.max_workgroups_per_dimension = record.max_workgroups_per_dimension;
  profile.limits.max_workgroup_invocations = record.max_workgroup_invocations;
  profile.limits.max_workgroup_size_x = record.max_workgroup_size_x;
  profile.shader_f16 = record.shader_f16 != 0;
  profile.subgroups = record.subgroups != 0;
  profile.subgroup_max = record.subgroup_max;
  profile.subgroups_need_enable = true;  // WGSL says so; only naga differs, and browsers follow WGSL
  return profile;
}

std::span<const wire::Pipeline> PipelineRecords::fill(std::span<const PipelineDesc> descs) {
  lists_.clear();
  records_.clear();
  for (const auto& desc : descs) {
    auto& lists = lists_.emplace_back();
    for (auto access : desc.bindings) lists.bindings.push_back(static_cast<std::uint32_t>(access));
    for (const auto& one : desc.overrides)
      lists.overrides.push_back({.name = std::string_view(one.name), .value = one.value});
    records_.push_back({.label = std::string_view(desc.label),
                        .wgsl = std::string_view(desc.wgsl),
                        .bindings = std::span<const std::uint32_t>(lists.bindings),
                        .overrides = std::span<const wire::Override>(lists.overrides),
                        .reports_faults = desc.reports_faults});
  }
  return records_;
}

const wire::Layout* LayoutRecords::fill(const Plan& plan, const Program& program) {
  const Layout& layout = plan.layout();
  fill_memory(plan);
  fill_boundary(layout);
  fill_method(program);
  record_ = {.method = std::string_view(program.method),
             .buffers = std::span<const wire::Buffer>(buffers_),
             .constants = std::span<const wire::Constant>(constants_),
             .uploads = std::span<const wire::Upload>(uploads_),
             .pipelines = pipelines_.fill(layout.pipelines),
             .graph_inputs = std::span<const wire::GraphInput>(graph_inputs_),
             .graph_outputs = std::span<const wire::GraphOutput>(graph_outputs_),
             .inputs = std::span<const wire::MethodInput>(inputs_),
             .outputs = std::span<const wire::MethodOutput>(outputs_),
             .constant_methods = std::span<const wire::ConstantMethod>(constant_methods_),
             .fault_buffer = layout.fault_buffer,
             .max_dispatches = layout.max_dispatches,
             .staging_bytes = layout.staging_bytes,
             .params_stride = kParamsStride,
             .fault_words = kFaultWords};
  return &record_;
}

void LayoutRecords::fill_memory(const Plan& plan) {
  for (const auto& desc : plan.layout().buffers) {
    buffers_.push_back({.bytes = desc.bytes, .role = static_cast<std::uint32_t>(desc.role)});
  }
  const auto& constants = plan.graph().constants;
  for (const auto& one : constants) {
    constants_.push_back({.offset = one.offset, .bytes = one.length, .key = std::string_view(one.key)});
  }
  for (const auto& one : plan.layout().uploads) {
    uploads_.push_back({.buffer = one.buffer,
                        .constant = one.constant,
                        .buffer_offset = one.buffer_offset,
                        .file_offset = constants[one.constant].offset + one.source_offset,
                        .bytes = one.bytes,
                        .narrow = one.narrow});
  }
}

void LayoutRecords::fill_boundary(const Layout& layout) {
  for (const auto& desc : layout.inputs) {
    auto& checks = checks_.emplace_back();
    for (const auto& check : desc.checks) checks.push_back({.rows = static_cast<std::uint64_t>(check.rows)});
    graph_inputs_.push_back({.is_int = desc.is_symint,
                             .dtype = static_cast<std::uint32_t>(desc.dtype),
                             .bound = shape_record(desc.bound),
                             .buffer = desc.buffer,
                             .used = desc.used,
                             .host_read = desc.host_read,
                             .checks = std::span<const wire::IndexCheck>(checks)});
  }
  for (const auto& desc : layout.outputs) {
    graph_outputs_.push_back(
        {.is_int = desc.is_symint, .dtype = static_cast<std::uint32_t>(desc.dtype), .buffer = desc.buffer});
  }
}

void LayoutRecords::fill_method(const Program& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& host = program.inputs[i];
    const auto index = program.graph_inputs[i];
    inputs_.push_back({.is_int = host.is_int,
                       .dtype = static_cast<std::uint32_t>(host.dtype),
                       .shape = shape_record(host.shape),
                       .dynamic = host.dynamic,
                       .used = index >= 0,
                       .index = static_cast<std::uint32_t>(std::max(index, 0))});
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto& host = program.outputs[i];
    const auto& source = program.output_sources[i];
    outputs_.push_back({.is_int = host.is_int,
                        .dtype = static_cast<std::uint32_t>(host.dtype),
                        .shape = shape_record(host.shape),
                        .dynamic = host.dynamic,
                        .kind = static_cast<std::uint32_t>(source.kind),
                        .index = source.index,
                        .value = source.value});
  }
  for (const auto& method : program.constant_methods) {
    auto& values = values_.emplace_back();
    for (const auto& value : method.values) values.emplace_back(value);
    constant_methods_.push_back({.name = std::string_view(method.name), .values = std::span<const wire::Text>(values)});
  }
}

}  // namespace nibble::web
