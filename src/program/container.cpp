#include "program/container.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "program/checks.hpp"
#include "program/constant_methods.hpp"
#include "program/host_tensor.hpp"
#include "program_generated.h"

namespace nibble {

namespace et = executorch_flatbuffer;

namespace {

constexpr std::string_view kBackend = "VulkanBackend";
constexpr std::string_view kRunElsewhere = "run it through ExecuTorch with `import nibble`";

class ContainerReader {
 public:
  ContainerReader(const et::Program& program, const std::byte* base, const ContainerHead& head)
      : program_(program), base_(base), head_(head), budget_(head.program_size) {}

  Result<Container> read(std::string_view method) {
    TRY_ASSIGN(container_.constant_methods, read_constant_methods(program_, budget_));
    TRY_ASSIGN(const et::ExecutionPlan* plan, find_method(method));
    TRY_ASSIGN(const et::DelegateCall* call, find_call(*plan));
    TRY_ASSIGN(const et::BackendDelegate* delegate, find_delegate(*plan, *call));
    TRY_ASSIGN(container_.blob, blob_of(*delegate));
    TRY(read_named_data());
    TRY(read_values(*plan, plan->inputs(), "input", container_.inputs));
    TRY(read_values(*plan, plan->outputs(), "output", container_.outputs));
    TRY(read_values(*plan, call->args(), "delegate argument", container_.arguments));
    return std::move(container_);
  }

  Result<Delegates> read_delegates(std::string_view method) {
    TRY_ASSIGN(container_.constant_methods, read_constant_methods(program_, budget_));
    TRY_ASSIGN(const et::ExecutionPlan* plan, find_method(method));
    TRY(read_named_data());
    // Many delegates may share one blob, and each is read.
    Budget to_read(head_.file_size, "the blobs of the delegates");
    std::vector<FileRange> blobs;
    for (std::size_t i = 0; i < length(plan->delegates()); ++i) {
      const auto& delegate = *get(plan->delegates(), i);
      TRY_ASSIGN(const auto id, read_name(delegate.id(), "the delegate's backend name"));
      if (id != kBackend) continue;
      TRY(budget_.spend(sizeof(FileRange)));
      TRY_ASSIGN(blobs.emplace_back(), blob_of(delegate));
      TRY(to_read.spend(blobs.back().size));
    }
    return Delegates{std::move(container_), std::move(blobs)};
  }

 private:
  Result<const et::ExecutionPlan*> find_method(std::string_view wanted) {
    const auto* plans = program_.execution_plan();
    const et::ExecutionPlan* only = nullptr;
    std::size_t computing = 0;
    std::string names;
    for (std::size_t i = 0; i < length(plans); ++i) {
      const auto* plan = get(plans, i);
      TRY_ASSIGN(const auto name, read_name(plan->name(), fmt::format("the name of method {}", i)));
      if (name == (wanted.empty() ? "forward" : wanted)) {
        container_.method = name;
        return plan;
      }
      if (!computes(*plan)) continue;
      only = plan;
      ++computing;
      TRY(budget_.spend(name.size() + 4));
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
    if (wanted.empty() && computing == 1) {
      container_.method = only->name()->str();
      return only;
    }
    return fail(wanted.empty() ? ErrorCode::invalid_program : ErrorCode::invalid_argument,
                "the program has no method '{}'; the methods that compute are: {}", wanted.empty() ? "forward" : wanted,
                names.empty() ? "none" : names);
  }

  /// The method's only delegate call. If the method has anything else, an error says what.
  Result<const et::DelegateCall*> find_call(const et::ExecutionPlan& plan) {
    const et::DelegateCall* call = nullptr;
    std::size_t calls = 0;
    bool control_flow = false;
    std::vector<bool> operators(length(plan.operators()));
    for (std::size_t c = 0; c < length(plan.chains()); ++c) {
      const auto* instructions = get(plan.chains(), c)->instructions();
      for (std::size_t i = 0; i < length(instructions); ++i) {
        const auto& instruction = *get(instructions, i);
        if (instruction.instr_args() == nullptr) {
          return fail(ErrorCode::invalid_program, "instruction {} of method '{}' has no content", i, container_.method);
        }
        if (const auto* kernel = instruction.instr_args_as_KernelCall()) {
          if (kernel->op_index() < 0 || static_cast<std::size_t>(kernel->op_index()) >= operators.size()) {
            return fail(ErrorCode::invalid_program,
                        "instruction {} of method '{}' calls operator {}, but the method has {} operators", i,
                        container_.method, kernel->op_index(), operators.size());
          }
          operators[static_cast<std::size_t>(kernel->op_index())] = true;
        } else if (const auto* delegate = instruction.instr_args_as_DelegateCall()) {
          call = delegate;
          ++calls;
        } else if (instruction.instr_args_type() != et::InstructionArguments::FreeCall) {
          control_flow = true;
        }
      }
    }
    TRY_ASSIGN(const std::string outside, operator_names(plan, operators));
    if (!outside.empty()) {
      return fail(
          ErrorCode::unsupported,
          "method '{}' has operators outside the delegate ({}), and Nibble alone runs only methods that are one "
          "delegate call: {}",
          container_.method, outside, kRunElsewhere);
    }
    if (calls != 1 || control_flow) {
      return fail(
          ErrorCode::unsupported,
          "method '{}' has {} delegate calls{}, and Nibble alone runs only methods that are one delegate call: {}",
          container_.method, calls, control_flow ? " and control flow" : "", kRunElsewhere);
    }
    return call;
  }

  Result<std::string> operator_names(const et::ExecutionPlan& plan, const std::vector<bool>& used) {
    std::set<std::string> seen;
    std::string names;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const auto& op = *get(plan.operators(), i);
      TRY_ASSIGN(const auto base, read_name(op.name(), fmt::format("the name of operator {}", i)));
      TRY(budget_.spend(base.size() + 1 + length(op.overload())));
      std::string name(base);
      if (length(op.overload()) != 0) {
        TRY_ASSIGN(const auto overload, read_name(op.overload(), fmt::format("the overload of operator {}", i)));
        name.append(".").append(overload);
      }
      if (seen.insert(name).second) names.append(names.empty() ? "" : ", ").append(name);
    }
    return names;
  }

  Result<const et::BackendDelegate*> find_delegate(const et::ExecutionPlan& plan, const et::DelegateCall& call) {
    const std::size_t count = length(plan.delegates());
    if (call.delegate_index() < 0 || static_cast<std::size_t>(call.delegate_index()) >= count) {
      return fail(ErrorCode::invalid_program, "method '{}' calls delegate {}, but it has {} delegates",
                  container_.method, call.delegate_index(), count);
    }
    const auto& delegate = *get(plan.delegates(), call.delegate_index());
    TRY_ASSIGN(const auto id, read_name(delegate.id(), "the delegate's backend name"));
    if (id != kBackend) {
      return fail(ErrorCode::unsupported, "method '{}' was exported for {}, but Nibble runs programs for {}",
                  container_.method, id, kBackend);
    }
    return &delegate;
  }

  Result<FileRange> blob_of(const et::BackendDelegate& delegate) const {
    if (delegate.processed() == nullptr) return fail(ErrorCode::invalid_program, "the delegate has no data");
    const std::uint32_t index = delegate.processed()->index();
    switch (delegate.processed()->location()) {
      case et::DataLocation::SEGMENT: return segment(index, "the delegate blob");
      case et::DataLocation::INLINE: break;
      default:
        return fail(ErrorCode::invalid_program, "the delegate blob is at the unknown kind of place {}",
                    static_cast<int>(delegate.processed()->location()));
    }
    const auto* blobs = program_.backend_delegate_data();
    if (index >= length(blobs)) {
      return fail(ErrorCode::invalid_program, "the delegate blob is number {} of {} in the program", index,
                  length(blobs));
    }
    const auto* data = get(blobs, index)->data();
    if (data == nullptr) return fail(ErrorCode::invalid_program, "the delegate blob has no data");
    return FileRange{static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(data->data()) - base_),
                     data->size()};
  }

  Result<FileRange> segment(std::uint32_t index, std::string_view what) const {
    const auto* segments = program_.segments();
    if (index >= length(segments)) {
      return fail(ErrorCode::invalid_program, "{} is in segment {}, but the file has {} segments", what, index,
                  length(segments));
    }
    if (head_.segment_base == 0) {
      return fail(ErrorCode::invalid_program, "{} is in segment {}, but the file's header names no place for segments",
                  what, index);
    }
    const auto& source = *get(segments, index);
    const Size start = Size(head_.segment_base) + source.offset();
    if (!(start + source.size()).fits(head_.file_size)) {
      return fail(ErrorCode::invalid_program,
                  "{} has {} bytes from {} after the segment base {}, but the file ends at {}", what, source.size(),
                  source.offset(), head_.segment_base, head_.file_size);
    }
    return FileRange{start.unchecked(), source.size()};
  }

  /// Where the file has the elements of a constant tensor of the method. Nothing for older files, which store them
  /// inside the program.
  Result<std::optional<FileRange>> constant_data(std::uint32_t index, const HostValue& host) const {
    const auto* constants = program_.constant_segment();
    if (constants == nullptr || length(constants->offsets()) == 0) return std::optional<FileRange>();
    const auto what = fmt::format("constant tensor {}", index);
    if (index >= length(constants->offsets())) {
      return fail(ErrorCode::invalid_program, "{} is asked for, but the file has {}", what,
                  length(constants->offsets()));
    }
    TRY_ASSIGN(const FileRange all, segment(constants->segment_index(), what));
    const Size bytes = Size::bytes(host.shape, host.dtype);
    const std::uint64_t offset = get(constants->offsets(), index);
    if (!(Size(offset) + bytes).fits(all.size)) {
      return fail(ErrorCode::invalid_program, "{} of shape {} ({}) begins at byte {} of a segment of {} bytes", what,
                  host.shape, host.dtype, offset, all.size);
    }
    return std::optional(FileRange{all.offset + offset, bytes.unchecked()});
  }

  Status read_named_data() {
    for (std::size_t i = 0; i < length(program_.named_data()); ++i) {
      const auto& data = *get(program_.named_data(), i);
      TRY_ASSIGN(const auto key, read_name(data.key(), fmt::format("the key of named data {}", i)));
      TRY(budget_.spend(key.size()));
      TRY_ASSIGN(const FileRange range, segment(data.segment_index(), fmt::format("the data named '{}'", key)));
      container_.named.emplace(key, range);
    }
    return {};
  }

  Status read_values(const et::ExecutionPlan& plan, const flatbuffers::Vector<std::int32_t>* ids, std::string_view what,
                     std::vector<MethodValue>& out) {
    TRY(budget_.spend(Size(length(ids)) * sizeof(MethodValue)));
    TRY(reserve(out, length(ids), "values of the method"));
    for (std::size_t i = 0; i < length(ids); ++i) {
      const std::int32_t id = get(ids, i);
      if (id < 0 || static_cast<std::size_t>(id) >= length(plan.values())) {
        return fail(ErrorCode::invalid_program, "{} {} of method '{}' is value {}, but the method has {} values", what,
                    i, container_.method, id, length(plan.values()));
      }
      const auto& source = *get(plan.values(), id);
      MethodValue value{.id = static_cast<std::uint32_t>(id), .host = {}};
      if (const auto* tensor = source.val_as_Tensor()) {
        TRY_ASSIGN(value.host,
                   read_host_tensor(*tensor, fmt::format("{} {} of method '{}'", what, i, container_.method)));
        if (tensor->data_buffer_idx() != 0 && tensor->allocation_info() == nullptr) {
          TRY_ASSIGN(value.data, constant_data(tensor->data_buffer_idx(), value.host));
        }
      } else if (const auto* integer = source.val_as_Int()) {
        value.host.is_int = true;
        value.host.dtype = DType::i64;
        value.integer = integer->int_val();
      } else {
        return fail(ErrorCode::unsupported,
                    "{} {} of method '{}' is of kind {}, but Nibble alone takes tensors and integers", what, i,
                    container_.method, et::EnumNameKernelTypes(source.val_type()));
      }
      out.push_back(value);
    }
    return {};
  }

  const et::Program& program_;
  const std::byte* base_;
  const ContainerHead& head_;
  Budget budget_;
  Container container_;
};

}  // namespace

Result<ContainerHead> read_head(std::span<const std::byte> first_bytes, std::uint64_t file_size) {
  constexpr std::size_t kExtendedOffset = 8;
  constexpr std::size_t kShortHeader = 24;  // without the size of all segments
  constexpr std::size_t kFullHeader = 32;
  if (file_size == 0) return fail(ErrorCode::invalid_program, "the program file is empty");
  TRY(check_flatbuffer_head(first_bytes.first(std::min(first_bytes.size(), kHeadBytes)), "ET12", "the program file"));

  ContainerHead head{.program_size = file_size, .file_size = file_size};
  if (first_bytes.size() < kExtendedOffset + kShortHeader ||
      std::memcmp(first_bytes.data() + kExtendedOffset, "eh00", 4) != 0) {
    return head;
  }
  const auto extended = first_bytes.subspan(kExtendedOffset);
  const auto header_size = load<std::uint32_t>(extended, 4);
  if (header_size < kShortHeader) {
    return fail(ErrorCode::invalid_program, "the program file's header says it has {} bytes, but {} is the least",
                header_size, kShortHeader);
  }
  head.program_size = load<std::uint64_t>(extended, 8);
  head.segment_base = load<std::uint64_t>(extended, 16);
  if (head.program_size > file_size) {
    return fail(ErrorCode::invalid_program, "the file has {} bytes, but its header says that the program alone has {}",
                file_size, head.program_size);
  }
  if (head.segment_base != 0 && head.segment_base < head.program_size) {
    return fail(ErrorCode::invalid_program, "the file's segments start at byte {}, inside the program of {} bytes",
                head.segment_base, head.program_size);
  }
  std::uint64_t segment_bytes = 0;
  if (header_size >= kFullHeader && extended.size() >= kFullHeader) segment_bytes = load<std::uint64_t>(extended, 24);
  if (!(Size(head.segment_base) + segment_bytes).fits(file_size)) {
    return fail(ErrorCode::invalid_program,
                "the file has {} bytes, but its header says that {} bytes of segments follow byte {}", file_size,
                segment_bytes, head.segment_base);
  }
  return head;
}

namespace {

template <class Read>
auto with_reader(std::span<const std::byte> program, const ContainerHead& head, const Read& read)
    -> decltype(read(std::declval<ContainerReader&>())) {
  if (program.size() != head.program_size) {
    return fail(ErrorCode::invalid_argument, "the program has {} bytes, but {} were given", head.program_size,
                program.size());
  }
  TRY_ASSIGN(const AlignedBytes bytes, AlignedBytes::of(program, "the program"));
  TRY_ASSIGN(const auto* root, verified_root<et::Program>(bytes.bytes(), "ET12", "the program"));
  ContainerReader reader(*root, bytes.bytes().data(), head);
  return read(reader);
}

}  // namespace

Result<Container> read_container(std::span<const std::byte> program, const ContainerHead& head,
                                 std::string_view method) {
  return with_reader(program, head, [&](ContainerReader& reader) { return reader.read(method); });
}

Result<Delegates> read_delegates(std::span<const std::byte> program, const ContainerHead& head,
                                 std::string_view method) {
  return with_reader(program, head, [&](ContainerReader& reader) { return reader.read_delegates(method); });
}

}  // namespace nibble
