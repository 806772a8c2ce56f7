#include "web/records.hpp"

#include <algorithm>
#include <utility>

#include "option_fields.hpp"
#include "plan/batches.hpp"

namespace nibble::web {
namespace {

std::string_view view_of(const wire::Text& text) { return {text.data, text.bytes}; }
std::string string_of(const wire::Text& text) { return std::string(view_of(text)); }

template <class T>
std::span<const T> items(const wire::List<T>& list) {
  return {list.data, list.count};
}

std::vector<WrittenField> fields_of(const wire::List<wire::TuningField>& list) {
  std::vector<WrittenField> fields;
  for (const auto& field : items(list)) {
    fields.push_back({.name = view_of(field.name),
                      .kind = static_cast<WrittenField::Kind>(field.kind),
                      .text = view_of(field.text),
                      .count = field.count,
                      .numbers = field.numbers});
  }
  return fields;
}

/// Fields of the record as those of the struct.
struct FromRecord {
  const TunedOn& here;

  Status operator()(const wire::Text& from, std::string& to) const {
    to = string_of(from);
    return {};
  }
  Status operator()(std::uint64_t from, std::uint64_t& to) const {
    to = from;
    return {};
  }
  Status operator()(std::uint32_t from, bool& to) const {
    to = from != 0;
    return {};
  }
  Status operator()(const wire::List<wire::Text>& from, std::vector<std::string>& to) const {
    for (const auto& text : items(from)) to.push_back(string_of(text));
    return {};
  }
  Status operator()(const wire::List<wire::ForcedVariant>& from, std::vector<ForcedVariant>& to) const {
    for (const auto& one : items(from)) to.push_back({string_of(one.choice), string_of(one.variant)});
    return {};
  }
  Status operator()(const wire::Tuning& from, std::vector<TuningRow>& to) const {
    for (const auto& tuning : items(from.tunings)) {
      TunedOn on;
      if (from.is_for_any == 0) {
        TRY_ASSIGN(on, read_tuned_on(fields_of(tuning.fields)));
      }
      if (!on.nibble.empty() && on.nibble != here.nibble) {
        to.push_back({.on = std::move(on)});
        continue;
      }
      if (tuning.has_choices == 0) return std::unexpected(no_choices());
      std::size_t index = 0;
      for (const auto& choice : items(tuning.choices)) {
        const auto fields = fields_of(choice.fields);
        std::optional<std::span<const WrittenField>> given;
        if (choice.is_object != 0) given = fields;
        TRY_ASSIGN(auto row, read_choice(index++, given));
        row.on = on;
        to.push_back(std::move(row));
      }
    }
    return {};
  }
};

}  // namespace

Error no_such(std::string_view what, std::size_t number) {
  return {ErrorCode::invalid_argument, fmt::format("there is no {} {}", what, number)};
}

wire::Shape shape_record(const Shape& shape) {
  wire::Shape record{.rank = static_cast<std::uint32_t>(shape.rank())};
  std::ranges::copy(shape.dims(), record.dims.begin());
  return record;
}

Shape shape_of(const wire::Shape& record) {
  Shape shape;
  for (std::uint32_t i = 0; i < record.rank; ++i) shape.push_back(static_cast<std::int64_t>(record.dims[i]));
  return shape;
}

TunedOn tuned_on(const wire::Profile& record) {
  return {string_of(record.name), string_of(record.driver), string_of(record.engine), string_of(record.nibble)};
}

DeviceProfile profile_of(const wire::Profile& record) {
  DeviceProfile profile;
  profile.kind = static_cast<AdapterKind>(record.kind);
  profile.limits.max_buffer_size = record.max_buffer_size;
  profile.limits.max_storage_binding_size = record.max_storage_binding_size;
  profile.limits.max_workgroups_per_dimension = record.max_workgroups_per_dimension;
  profile.limits.max_workgroup_invocations = record.max_workgroup_invocations;
  profile.limits.max_workgroup_size_x = record.max_workgroup_size_x;
  profile.limits.max_workgroup_bytes = record.max_workgroup_bytes;
  profile.shader_f16 = record.shader_f16 != 0;
  profile.packed_dot = record.packed_dot != 0;
  profile.subgroups = record.subgroups != 0;
  profile.subgroup_min = record.subgroup_min;
  profile.subgroup_max = record.subgroup_max;
  profile.subgroups_need_enable = true;  // WGSL says so; only naga differs, and browsers follow WGSL
  return profile;
}

Result<Options> options_of(const wire::Options& record, const TunedOn& here) {
  return take_options(record, FromRecord{here});
}

wire::Dispatch dispatch_record(const Dispatch& from) {
  return {.pipeline = from.pipeline,
          .node = from.node,
          .grid = from.grid,
          .binding_count = from.binding_count,
          .bindings = from.bindings};
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

Result<const wire::Layout*> LayoutRecords::fill(const Boundary& boundary, const Program& program,
                                                std::span<const std::uint8_t> by_rows, UsableTuning tuning) {
  note_ = std::move(tuning.word);
  notes_.assign(note_.empty() ? 0 : 1, std::string_view(note_));
  const Layout& layout = boundary.plan()->layout();
  fill_memory(*boundary.plan());
  TRY_ASSIGN(const auto preparation, Stepper::preparation(boundary.plan()));
  fill_preparation(preparation, layout.batch_work);
  fill_graph(boundary);
  fill_method(boundary.signature());
  fill_states(layout, by_rows);
  fill_constant_methods(program);
  record_ = {.method = std::string_view(program.method),
             .notes = std::span<const wire::Text>(notes_),
             .is_tuned = !tuning.rows.empty(),
             .buffers = std::span<const wire::Buffer>(buffers_),
             .constants = std::span<const wire::Constant>(constants_),
             .uploads = std::span<const wire::Upload>(uploads_),
             .pipelines = pipelines_.fill(layout.pipelines),
             .ops = std::span<const wire::Text>(ops_),
             .preparation = std::span<const wire::Dispatch>(preparation_),
             .preparation_params = std::span<const std::uint8_t>(preparation_params_),
             .preparation_batches = std::span<const std::uint32_t>(preparation_batches_),
             .graph_inputs = std::span<const wire::GraphInput>(graph_inputs_),
             .graph_outputs = std::span<const wire::GraphOutput>(graph_outputs_),
             .inputs = std::span<const wire::MethodInput>(inputs_),
             .outputs = std::span<const wire::MethodOutput>(outputs_),
             .states = std::span<const wire::State>(states_),
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
  for (const auto& node : plan.graph().nodes) ops_.emplace_back(node.op);
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

void LayoutRecords::fill_preparation(std::span<const Dispatch> dispatches, std::uint64_t batch_work) {
  std::vector<const Dispatch*> order;
  for (const auto& one : dispatches) {
    order.push_back(&one);
    preparation_.push_back(dispatch_record(one));
    const auto* params = reinterpret_cast<const std::uint8_t*>(one.params.data());
    preparation_params_.insert(preparation_params_.end(), params, params + one.params.size());
  }
  cut_batches(order, batch_work, preparation_batches_);
}

void LayoutRecords::fill_graph(const Boundary& boundary) {
  const Layout& layout = boundary.plan()->layout();
  for (std::size_t i = 0; i < layout.inputs.size(); ++i) {
    const auto& desc = layout.inputs[i];
    const Range range = boundary.range(i);
    graph_inputs_.push_back({.input = static_cast<std::uint32_t>(boundary.method_input(i)),
                             .dtype = static_cast<std::uint32_t>(desc.dtype),
                             .buffer = desc.buffer,
                             .wanted = boundary.wants_elements(i),
                             .used = desc.used,
                             .host_read = desc.host_read,
                             .lowest = static_cast<double>(range.lowest),
                             .highest = static_cast<double>(range.highest)});
  }
  for (const auto& desc : layout.outputs) {
    graph_outputs_.push_back(
        {.is_int = desc.is_symint, .dtype = static_cast<std::uint32_t>(desc.dtype), .buffer = desc.buffer});
  }
}

void LayoutRecords::fill_method(const MethodSignature& signature) {
  for (const auto& host : signature.inputs) {
    inputs_.push_back({.is_int = host.is_int,
                       .dtype = static_cast<std::uint32_t>(host.dtype),
                       .shape = shape_record(host.shape),
                       .dynamic = host.dynamic});
  }
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    const auto& host = signature.outputs[i];
    const auto& source = signature.output_sources[i];
    outputs_.push_back({.is_int = host.is_int,
                        .dtype = static_cast<std::uint32_t>(host.dtype),
                        .shape = shape_record(host.shape),
                        .dynamic = host.dynamic,
                        .kind = static_cast<std::uint32_t>(source.kind),
                        .index = source.index,
                        .value = source.value});
  }
}

void LayoutRecords::fill_states(const Layout& layout, std::span<const std::uint8_t> by_rows) {
  for (const auto& desc : layout.states) {
    const bool has_row_axis = desc.row_axis != StateDesc::kNoRows;
    states_.push_back({.role = desc.role,
                       .dtype = static_cast<std::uint32_t>(desc.dtype),
                       .shape = shape_record(desc.shape),
                       .has_row_axis = has_row_axis,
                       .row_axis = has_row_axis ? static_cast<std::uint32_t>(desc.row_axis) : 0,
                       .by_rows = by_rows[states_.size()]});
  }
}

void LayoutRecords::fill_constant_methods(const Program& program) {
  for (const auto& method : program.constant_methods) {
    auto& values = values_.emplace_back();
    for (const auto& value : method.values) values.emplace_back(value);
    constant_methods_.push_back({.name = std::string_view(method.name), .values = std::span<const wire::Text>(values)});
  }
}

}  // namespace nibble::web
