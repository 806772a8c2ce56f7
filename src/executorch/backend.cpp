// Nibble as an ExecuTorch backend. Nothing here throws, and no failure is more than an error code and one log sentence.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <atomic>
#include <memory>
#include <new>

#include "api/load_blob.hpp"
#include "arguments.hpp"
#include "constants.hpp"
#include "graph/guarded.hpp"
#include "graph/status.hpp"
#include "op_times.hpp"

namespace nibble {
namespace {

namespace et = ::executorch::runtime;

/// What the exporter writes, whoever runs the program.
constexpr const char* kBackendId = "VulkanBackend";

/// A loaded method. The lists are kept, so that a call allocates nothing.
struct Delegate {
  Device device;
  Loaded method;
  std::vector<HostTensor> inputs;
  std::vector<HostOutput> outputs;
};

et::Error code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_program:
    case ErrorCode::unsupported: return et::Error::DelegateInvalidCompatibility;
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range: return et::Error::InvalidArgument;
    case ErrorCode::out_of_memory: return et::Error::MemoryAllocationFailed;
    default: return et::Error::Internal;
  }
}

/// ExecuTorch cuts a line of its log at 255 bytes, so a long sentence takes several.
template <class Log>
void in_lines(const std::string& text, Log log) {
  constexpr std::size_t kLineBytes = 240;
  for (std::size_t at = 0; at < text.size();) {
    auto end = text.size() - at <= kLineBytes ? text.size() : text.rfind(' ', at + kLineBytes);
    if (end == std::string::npos || end <= at) end = at + kLineBytes;
    log(static_cast<int>(end - at), text.c_str() + at);
    at = end;
  }
}

et::Error report(const Error& error) {
  in_lines(error.message, [](int bytes, const char* line) { ET_LOG(Error, "nibble: %.*s", bytes, line); });
  return code_of(error.code);
}

Result<std::unique_ptr<Delegate>> load(const et::NamedDataMap* map, const et::FreeableBuffer& processed) {
  const auto data = processed.data_safe();
  if (!data.ok()) return fail(ErrorCode::invalid_argument, "the delegate's blob is not in this process's memory");
  const std::span blob(static_cast<const std::byte*>(*data), processed.size());
  TRY_ASSIGN(const auto device, Device::open());
  const auto size_of_named = [map](std::string_view key) -> Result<std::uint64_t> {
    TRY_ASSIGN(const auto named, named_data(map, key));
    return named.size();
  };
  const auto source = [&](std::span<const Constant> constants) {
    return std::make_unique<DelegateConstants>(blob, map, constants);
  };
  TRY_ASSIGN(auto method, load_blob(device, blob, size_of_named, source));
  auto delegate = std::make_unique<Delegate>(device, std::move(method));
  delegate->inputs.resize(delegate->method.model.inputs().size());
  delegate->outputs.resize(delegate->method.model.outputs().size());
  return delegate;
}

/// With a tracer that is told what each op took, if the device has timestamps.
Status call(Delegate& delegate, et::EventTracer* tracer) {
  Session& session = delegate.method.session;
  if (tracer == nullptr || !delegate.device.info().timestamp_query) return session.execute(delegate.outputs);
  TRY_ASSIGN(const auto times, session.profile(delegate.outputs));
  log_op_times(*tracer, times);
  return {};
}

Status run(Delegate& delegate, et::EventTracer* tracer, et::Span<et::EValue*> args) {
  auto& [device, method, inputs, outputs] = delegate;
  if (args.size() != inputs.size() + outputs.size()) {
    return fail(ErrorCode::invalid_argument, "{} arguments are given, but the delegate has {} inputs and {} outputs",
                args.size(), inputs.size(), outputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TRY_ASSIGN(inputs[i], input_of(*args[i], i));
  }
  TRY(method.session.set_inputs(inputs));

  const auto& infos = method.model.outputs();
  et::EValue** const results = args.data() + inputs.size();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (infos[i].is_int) continue;
    TRY_ASSIGN(outputs[i], output_of(*results[i], i, method.session.output_shape(i)));
  }
  TRY(call(delegate, tracer));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (infos[i].is_int) *results[i] = et::EValue(method.session.output_int(i));
  }
  return {};
}

class WebGpuBackend final : public et::BackendInterface {
 public:
  bool is_available() const noexcept override {
    if (available_) return true;
    const auto found = guarded([]() -> Status {
      TRY_ASSIGN(const auto all, devices());
      if (all.empty()) return fail(ErrorCode::gpu, "there is no GPU adapter that WebGPU can use");
      return {};
    });
    if (!found) report(found.error());
    available_ = found.has_value();
    return available_;
  }

  // NOLINTNEXTLINE(bugprone-exception-escape): nothing but what guarded() catches is thrown
  et::Result<et::DelegateHandle*> init(et::BackendInitContext& context, et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec>) const noexcept override {
    auto delegate = guarded([&] { return load(context.get_named_data_map(), *processed); });
    if (!delegate) return report(delegate.error());
    for (const auto& note : (*delegate)->method.model.notes()) {
      in_lines(note, [](int bytes, const char* line) { ET_LOG(Info, "nibble: %.*s", bytes, line); });
    }
    if (const auto& info = (*delegate)->device.info(); context.event_tracer() != nullptr && !info.timestamp_query) {
      ET_LOG(Info, "nibble: %s has no timestamp queries, so the event tracer gets no time of single ops",
             info.name.c_str());
    }
    processed->Free();
    return static_cast<et::DelegateHandle*>(delegate->release());
  }

  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* handle,
                    et::Span<et::EValue*> args) const noexcept override {
    const auto done = guarded([&] { return run(*static_cast<Delegate*>(handle), context.event_tracer(), args); });
    return done ? et::Error::Ok : report(done.error());
  }

  void destroy(et::DelegateHandle* handle) const noexcept override { delete static_cast<Delegate*>(handle); }

 private:
  /// An adapter that was there once is not looked for again: a method that fails to load says why.
  mutable std::atomic<bool> available_ = false;
};

et::Error register_once() {
  // Never destroyed: ExecuTorch calls it until the process ends.
  static auto* const backend = new (std::nothrow) WebGpuBackend;
  return backend != nullptr ? et::register_backend({kBackendId, backend}) : et::Error::MemoryAllocationFailed;
}

const et::Error registration = register_once();

}  // namespace
}  // namespace nibble

/// How the registration went: ExecuTorch's error code, 0 when Nibble is the backend.
extern "C" NIBBLE_API std::int32_t nibble_executorch_registered() noexcept {
  return static_cast<std::int32_t>(nibble::registration);
}
