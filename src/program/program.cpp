#include "program/program.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "program/checks.hpp"

namespace nibble {

namespace {

/// A method may return a value several times, and every time takes as much of the caller's memory. A few bytes of a
/// file must not ask for all of it.
constexpr std::uint64_t kMostRepeatedBytes = std::uint64_t{1} << 28;

Size bytes_of(const HostValue& host) { return host.is_int ? Size(0) : Size::bytes(host.shape, host.dtype); }

using Ids = std::map<std::uint32_t, std::uint32_t>;

/// Last position of each id: what is written last is there.
Ids positions(std::span<const MethodValue> values) {
  Ids ids;
  for (std::uint32_t i = 0; i < values.size(); ++i) ids[values[i].id] = i;
  return ids;
}

/// A caller who passes two arrays for one value would see one of them ignored.
Status check_inputs(const Container& container, const Ids& places) {
  for (std::size_t i = 0; i < container.inputs.size(); ++i) {
    if (const auto last = places.find(container.inputs[i].id); last->second != i) {
      return fail(ErrorCode::invalid_program, "input {} of method '{}' is the same value as its input {}", last->second,
                  container.method, i);
    }
  }
  return {};
}

bool converts(DType host, DType staging) {
  return host == staging || (host == DType::i64 && staging == DType::i32) ||
         ((host == DType::f64 || host == DType::f16) && staging == DType::f32);
}

/// Checks that what the method passes (`host`) fits value `id` of the graph.
Status check_agreement(const HostValue& host, const Graph& graph, ValueId id, std::string_view what, bool is_input) {
  const auto* tensor = graph.tensor(id);
  if (tensor == nullptr) {
    // An integer may come as a tensor with one element.
    const bool scalar =
        is_input && !host.is_int && host.shape.numel() == 1 && (host.dtype == DType::i32 || host.dtype == DType::i64);
    if (host.is_int || scalar) return {};
    return fail(ErrorCode::invalid_program,
                "{} of the delegate is an integer, but the method passes a {} tensor of shape {}", what, host.dtype,
                host.shape);
  }
  if (host.is_int) {
    return fail(ErrorCode::invalid_program,
                "{} of the delegate is a tensor of shape {}, but the method passes an integer", what, tensor->shape);
  }
  if (host.shape != tensor->shape) {
    return fail(ErrorCode::invalid_program,
                "{} of the delegate has the shape {}, but the method passes one of shape {}", what, tensor->shape,
                host.shape);
  }
  if (!converts(host.dtype, tensor->staging)) {
    return fail(ErrorCode::unsupported, "{} of the delegate is {}, but the method passes {}", what, tensor->staging,
                host.dtype);
  }
  return {};
}

Status locate_constants(Graph& graph, const Container& container) {
  for (auto& constant : graph.constants) {
    if (constant.located) {
      constant.offset += container.blob.offset;
      continue;
    }
    const auto range = container.named.find(constant.key);
    if (range == container.named.end()) {
      return fail(ErrorCode::invalid_program, "the file has no data named '{}'", constant.key);
    }
    constant.offset = range->second.offset;
    constant.located = true;
  }
  return {};
}

/// The exporter may store a constant in the method, which passes it to the delegate as an input.
bool become_constant(Graph& graph, ValueId id, const MethodValue& value) {
  auto* tensor = graph.tensor(id);
  if (tensor == nullptr || !value.data || tensor->constant >= 0) return false;
  if (value.host.dtype != tensor->dtype || tensor->staging != tensor->dtype) return false;
  tensor->constant = static_cast<std::int32_t>(graph.constants.size());
  graph.constants.push_back({.length = value.data->size, .key = {}, .offset = value.data->offset, .located = true});
  return true;
}

}  // namespace

NamedSize named_sizes(const Container& container) {
  return [&container](std::string_view key) -> Result<std::uint64_t> {
    const auto range = container.named.find(key);
    if (range == container.named.end()) {
      return fail(
          ErrorCode::invalid_program,
          "the file has no data named '{}'; weights in a separate .ptd file need ExecuTorch with `import nibble`", key);
    }
    return range->second.size;
  };
}

Result<Program> join(Container container, Graph graph) {
  const std::size_t in = graph.inputs.size();
  const std::size_t out = graph.outputs.size();
  const auto& arguments = container.arguments;
  if (arguments.size() != in + out) {
    return fail(ErrorCode::invalid_program,
                "method '{}' passes {} values to the delegate, which has {} inputs and {} outputs{}", container.method,
                arguments.size(), in, out,
                arguments.size() < in + out
                    ? ""
                    : ": the exporter leaves out outputs that equal others and inputs that only "
                      "lend their size");
  }
  const Ids inputs = positions(container.inputs);
  const Ids results = positions(std::span(arguments).subspan(in));

  TRY(check_inputs(container, inputs));
  TRY(locate_constants(graph, container));
  Program program;
  program.signature.graph_inputs.assign(container.inputs.size(), -1);
  std::vector<ValueId> graph_inputs;
  for (std::size_t i = 0; i < in; ++i) {
    const std::string what = fmt::format("input {}", i);
    TRY(check_agreement(arguments[i].host, graph, graph.inputs[i], what, true));
    const auto input = inputs.find(arguments[i].id);
    if (input == inputs.end()) {
      if (const auto result = results.find(arguments[i].id); result != results.end()) {
        return fail(ErrorCode::unsupported, "output {} of the delegate overwrites its {}", result->second, what);
      }
      if (become_constant(graph, graph.inputs[i], arguments[i])) continue;
      return fail(ErrorCode::unsupported,
                  "{} of the delegate is neither an input of method '{}' nor a constant that Nibble alone reads: run "
                  "it through ExecuTorch with `import nibble`",
                  what, container.method);
    }
    auto& slot = program.signature.graph_inputs[input->second];
    if (slot >= 0) {
      return fail(ErrorCode::unsupported, "{} of the delegate is the same value as its input {}", what, slot);
    }
    slot = static_cast<std::int32_t>(graph_inputs.size());
    graph_inputs.push_back(graph.inputs[i]);
    const auto& host = arguments[i].host;
    if (auto* tensor = graph.tensor(graph.inputs[i])) tensor->fixed = !host.dynamic && host.shape == tensor->shape;
  }
  graph.inputs = std::move(graph_inputs);
  for (std::size_t i = 0; i < out; ++i) {
    const std::string what = fmt::format("output {}", i);
    TRY(check_agreement(arguments[in + i].host, graph, graph.outputs[i], what, false));
    if (const auto input = inputs.find(arguments[in + i].id); input != inputs.end()) {
      return fail(ErrorCode::unsupported, "{} of the delegate overwrites input {} of method '{}'", what, input->second,
                  container.method);
    }
  }
  Size returned = 0;
  for (const auto& output : container.outputs) {
    OutputSource source;
    if (const auto result = results.find(output.id); result != results.end()) {
      source.index = result->second;
    } else if (const auto input = inputs.find(output.id); input != inputs.end()) {
      source = {.kind = OutputSource::Kind::input, .index = input->second};
    } else if (output.host.is_int) {
      source = {.kind = OutputSource::Kind::constant, .value = output.integer};
    } else {
      return fail(ErrorCode::unsupported,
                  "output {} of method '{}' is a constant tensor, which Nibble alone does not return: run it through "
                  "ExecuTorch with `import nibble`",
                  program.signature.outputs.size(), container.method);
    }
    returned = returned + bytes_of(output.host);
    program.signature.output_sources.push_back(source);
    program.signature.outputs.push_back(output.host);
  }
  // Once each, and no more than so much besides.
  Size once = kMostRepeatedBytes;
  for (const auto& input : container.inputs) once = once + bytes_of(input.host);
  for (std::size_t i = 0; i < out; ++i) once = once + bytes_of(arguments[in + i].host);
  if (once.valid() && !returned.fits(once.unchecked())) {
    return fail(ErrorCode::unsupported,
                "method '{}' returns outputs several times: the repeated ones take more than {} bytes",
                container.method, kMostRepeatedBytes);
  }
  for (const auto& input : container.inputs) program.signature.inputs.push_back(input.host);
  program.method = std::move(container.method);
  program.constant_methods = std::move(container.constant_methods);
  program.graph = std::move(graph);
  return program;
}

Result<FileProgram> copy_program(const ByteSource& file) {
  std::array<std::byte, kHeadBytes> start{};
  const auto first = std::span(start).first(std::min<std::uint64_t>(kHeadBytes, file.size()));
  TRY(file.read(0, first));
  TRY_ASSIGN(const ContainerHead head, read_head(first, file.size()));
  TRY(check_flatbuffer_size(head.program_size, "the program"));
  TRY_ASSIGN(auto bytes, AlignedBytes::copy(file, 0, head.program_size, "the program"));
  return FileProgram{head, std::move(bytes)};
}

Result<Program> read_program(const ByteSource& file, std::string_view method) {
  Container container;
  {
    TRY_ASSIGN(const FileProgram program, copy_program(file));
    TRY_ASSIGN(container, read_container(program.bytes.bytes(), program.head, method));
  }
  TRY_ASSIGN(Graph graph, read_blob(file, container.blob.offset, container.blob.size, named_sizes(container)));
  return join(std::move(container), std::move(graph));
}

Result<Program> read_program(std::span<const std::byte> file, std::string_view method) {
  return read_program(MemoryBytes(file), method);
}

}  // namespace nibble
