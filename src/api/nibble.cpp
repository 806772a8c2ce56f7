#include "nibble/nibble.hpp"

#include <algorithm>

#include "api/clock.hpp"
#include "api/kept_constants.hpp"
#include "api/kept_tuning.hpp"
#include "api/load_blob.hpp"
#include "api/profile_json.hpp"
#include "api/session.hpp"
#include "gpu/adapters.hpp"
#include "gpu/engines/engines.hpp"
#include "graph/guarded.hpp"
#include "ops/registry.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

DeviceInfo info_of(std::size_t index, std::size_t number, const DeviceProfile& profile) {
  DeviceInfo info;
  info.index = index;
  info.number = number;
  info.engine = profile.engine;
  info.name = profile.name;
  info.kind = to_string(profile.kind);
  info.backend = profile.backend;
  info.driver = profile.driver;
  info.max_buffer_size = profile.limits.max_buffer_size;
  info.max_storage_binding_size = profile.limits.max_storage_binding_size;
  info.max_workgroup_invocations = profile.limits.max_workgroup_invocations;
  info.shader_f16 = profile.shader_f16;
  info.subgroups = profile.subgroups;
  info.timestamp_query = profile.timestamp_query;
  info.profile_json = profile_to_json(profile);
  return info;
}

/// What loading a file and loading a blob share: plan, compile, upload. `path` is that of the file, or empty.
Status load_graph(const Device& device, Graph graph, MethodSignature signature, ConstantSource& source,
                  const LoadOptions& options, const std::string& path, ModelImpl& model) {
  const auto& gpu = Internals::of(device)->gpu;
  FingerprintSource marked(graph, source);
  Options tuned = options;
  TRY_ASSIGN(tuned.tuning, tuning_of_load(gpu, graph, source, options, path, model.notes));
  gpu::Phase phase(gpu->tracer(), "plan");
  TRY_ASSIGN(auto plan, Plan::make(std::move(graph), gpu->profile(), tuned, ops::registry(), gpu::is_stop_wanted));
  model.boundary = std::make_shared<const Boundary>(std::move(signature), plan);
  phase.end();
  TRY_ASSIGN(model.resources, gpu::ModelResources::make(gpu, std::move(plan), marked, options.on_progress));
  model.fingerprint = marked.get();
  TRY_ASSIGN(model.constants, KeptConstants::make(source, model.resources->plan()->layout()));
  return {};
}

}  // namespace

Status set_engine_library(std::string_view engine, std::string path) {
  return guarded([&]() -> Status {
    TRY(gpu::check_process());
    return gpu::set_engine_library(engine, std::move(path));
  });
}
void set_dawn_functions(std::vector<std::pair<std::string, void*>> functions) {
  if (!gpu::is_forked()) gpu::set_dawn_functions(std::move(functions));
}

void set_dawn_provider(void (*provide)()) { gpu::set_dawn_provider(provide); }

Result<std::vector<DeviceInfo>> devices(std::string_view engine) {
  return guarded([&]() -> Result<std::vector<DeviceInfo>> {
    TRY_ASSIGN(auto adapters, gpu::adapters(engine));
    std::vector<DeviceInfo> out;
    out.reserve(adapters.size());
    for (const auto& adapter : adapters) out.push_back(info_of(out.size(), adapter.number, adapter.profile));
    return out;
  });
}

Result<Device> Device::open(std::string_view selector, std::string_view engine) {
  return guarded([&]() -> Result<Device> {
    TRY_ASSIGN(auto gpu, gpu::Device::open(selector, engine));
    auto info = info_of(gpu->index(), gpu->number(), gpu->profile());
    return Internals::make<Device>(gpu::make_kept<DeviceImpl>(std::move(gpu), std::move(info)));
  });
}

const DeviceInfo& Device::info() const { return impl_->info; }
std::optional<Error> Device::lost() const {
  return guarded([&] { return impl_->gpu->lost(); }, [] { return std::optional(no_memory()); });
}
std::size_t Device::live_objects() const { return gpu::is_forked() ? 0 : impl_->gpu->pipelines().other_objects(); }
std::size_t Device::compiled_pipelines() const { return gpu::is_forked() ? 0 : impl_->gpu->pipelines().compiled(); }

Status Device::start_trace() const {
  return guarded([&]() -> Status {
    TRY(gpu::check_process());
    return impl_->gpu->tracer().start();
  });
}

Result<Trace> Device::stop_trace() const {
  return guarded([&]() -> Result<Trace> {
    TRY(gpu::check_process());
    return impl_->gpu->tracer().stop();
  });
}

Result<Model> Model::load(const Device& device, const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<Model> {
    TRY(gpu::check_process());
    const double start = now_ms();
    auto& tracer = Internals::of(device)->gpu->tracer();
    const gpu::Phase load(tracer, "load");
    gpu::Phase read(tracer, "read");
    TRY_ASSIGN(const File file, File::open(path));
    TRY_ASSIGN(auto program, read_program(file, options.method));
    read.end();
    FileConstants constants(file, program.graph.constants);

    auto model = gpu::make_kept<ModelImpl>();
    model->constant_methods = std::move(program.constant_methods);
    TRY(load_graph(device, std::move(program.graph), std::move(program.signature), constants, options, path, *model));
    model->load_start_ms = start;
    model->load_end_ms = now_ms();
    return Internals::make<Model>(std::move(model));
  });
}

const std::vector<TensorInfo>& Model::inputs() const { return impl_->boundary->signature().inputs; }
const std::vector<TensorInfo>& Model::outputs() const { return impl_->boundary->signature().outputs; }
const std::vector<ConstantMethod>& Model::constant_methods() const { return impl_->constant_methods; }
const std::vector<std::string>& Model::notes() const { return impl_->notes; }

Result<Loaded> load_blob(const Device& device, std::span<const std::byte> blob, const NamedSize& named,
                         const MakeSource& make_source, const LoadOptions& options) {
  return guarded([&]() -> Result<Loaded> {
    TRY(gpu::check_process());
    auto& tracer = Internals::of(device)->gpu->tracer();
    const gpu::Phase load(tracer, "load");
    gpu::Phase read(tracer, "read");
    TRY_ASSIGN(auto graph, read_blob(blob, named));
    read.end();
    const auto source = make_source(graph.constants);
    auto model = gpu::make_kept<ModelImpl>();
    auto signature = signature_of(graph);
    TRY(load_graph(device, std::move(graph), std::move(signature), *source, options, {}, *model));
    TRY_ASSIGN(auto session, SessionImpl::make(model));
    return Loaded{Internals::make<Model>(std::move(model)), Internals::make<Session>(std::move(session))};
  });
}

Result<Session> Model::session() const {
  return guarded([&]() -> Result<Session> {
    TRY_ASSIGN(auto session, SessionImpl::make(impl_));
    return Internals::make<Session>(std::move(session));
  });
}

Result<std::vector<HostArray>> Model::run(std::span<const HostTensor> inputs) const {
  return guarded([&]() -> Result<std::vector<HostArray>> {
    TRY(gpu::check_process());
    return own_->run(impl_, inputs);
  });
}

void Model::cancel() const noexcept {
  if (!gpu::is_forked()) own_->cancel();
}

Result<std::vector<HostArray>> Session::run(std::span<const HostTensor> inputs) {
  return guarded([&] { return impl_->run(inputs); });
}
Status Session::set_inputs(std::span<const HostTensor> inputs) {
  return guarded([&] { return impl_->set_inputs(inputs); });
}
Shape Session::output_shape(std::size_t output) const { return impl_->output_shape(output); }
std::int64_t Session::output_int(std::size_t output) const { return impl_->output_int(output); }
Status Session::execute(std::span<const HostOutput> outputs) {
  return guarded([&] { return impl_->execute(outputs); });
}
Status Session::submit(std::span<const HostOutput> outputs) {
  return guarded([&] { return impl_->submit(outputs); });
}
Status Session::wait() {
  return guarded([&] { return impl_->wait(); });
}
Result<std::vector<DispatchTime>> Session::profile(std::span<const HostOutput> outputs) {
  return guarded([&] { return impl_->profile(outputs); });
}
void Session::cancel() noexcept { impl_->executor->cancel(); }
Result<std::vector<StateInfo>> Session::states() const {
  return guarded([&]() -> Result<std::vector<StateInfo>> {
    TRY(gpu::check_process());
    return impl_->states();
  });
}

Status Session::rewind(std::int64_t rows) {
  return guarded([&] { return impl_->rewind(rows); });
}
Status Session::reset() {
  return guarded([&] { return impl_->reset(); });
}
Result<Session> Session::fork() {
  return guarded([&]() -> Result<Session> {
    TRY_ASSIGN(auto forked, impl_->fork());
    return Internals::make<Session>(std::move(forked));
  });
}
Status Session::save(const std::string& path) {
  return guarded([&] { return impl_->save(path); });
}
Status Session::restore(const std::string& path) {
  return guarded([&] { return impl_->restore(path); });
}

void set_stop_check(bool (*check)()) noexcept { gpu::set_stop_check(check); }

std::string_view version() noexcept { return NIBBLE_VERSION; }

}  // namespace nibble
