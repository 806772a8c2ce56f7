#include "gpu/pipelines.hpp"

#include <algorithm>

#include "gpu/device.hpp"

namespace nibble::gpu {
namespace {

std::string access_key(std::span<const Access> bindings) {
  std::string key;
  for (auto access : bindings) key += access == Access::read ? 'r' : 'w';
  return key;
}

std::string pipeline_key(const PipelineDesc& desc) {
  std::string key = access_key(desc.bindings);
  if (desc.unchecked) key += '!';
  for (const auto& constant : desc.overrides) key += fmt::format(" {}={}", constant.name, constant.value);
  return key + '\n' + desc.wgsl;
}

/// The live object of this key in a cache, if there is one.
template <class T>
std::shared_ptr<const T> find_alive(const std::map<std::string, std::weak_ptr<const T>>& cache,
                                    const std::string& key) {
  const auto found = cache.find(key);
  return found != cache.end() ? found->second.lock() : nullptr;
}

/// Adds an object, unless another thread has added one meanwhile; gives the one that is there. Forgets what is gone.
template <class T>
std::shared_ptr<const T> add_alive(std::map<std::string, std::weak_ptr<const T>>& cache, const std::string& key,
                                   std::shared_ptr<const T> made) {
  if (auto there = find_alive(cache, key)) return there;
  std::erase_if(cache, [](const auto& entry) { return entry.second.expired(); });
  cache.insert_or_assign(key, made);
  return made;
}

}  // namespace

Result<std::shared_ptr<const Pipeline>> Pipelines::get(const PipelineDesc& desc) {
  TRY(device_.check());
  const auto key = pipeline_key(desc);
  {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto [found, is_new] = pipelines_.try_emplace(key);
      found->second.last_use = ++uses_;
      if (found->second.pipeline != nullptr) return found->second.pipeline;
      if (is_new) break;
      compiled_one_.wait(lock);  // its entry is gone if it fails: then this thread tries
    }
  }
  Result<std::shared_ptr<const Pipeline>> made;
  // Whatever happens, nobody waits for this thread any longer.
  struct Done {
    Pipelines& self;
    const std::string& key;
    const Result<std::shared_ptr<const Pipeline>>& made;
    ~Done() {
      {
        const std::lock_guard lock(self.mutex_);
        const auto entry = self.pipelines_.find(key);
        if (made && *made != nullptr) {
          entry->second.pipeline = *made;
        } else {
          self.pipelines_.erase(entry);
        }
      }
      self.compiled_one_.notify_all();
    }
  };
  {
    const Done done{*this, key, made};
    made = compile(desc);
  }
  TRY(made);
  ++compiled_;
  std::vector<std::shared_ptr<const Pipeline>> unused;
  {
    const std::lock_guard lock(mutex_);
    unused = take_unused();
  }
  return made;
}

Result<std::shared_ptr<const Pipeline>> Pipelines::compile(const PipelineDesc& desc) {
  if (on_compile_for_test) on_compile_for_test();
  Engine& engine = device_.engine();
  ErrorScope scope(device_, ErrorScope::Catch::everything, ErrorScope::Lock::none);
  auto pipeline = std::make_shared<Pipeline>();
  pipeline->layout = bind_layout(desc.bindings);
  pipeline->module = shader_module(desc);
  std::vector<WGPUConstantEntry> constants;
  constants.reserve(desc.overrides.size());
  for (const auto& constant : desc.overrides) constants.push_back({nullptr, view(constant.name), constant.value});
  WGPUComputePipelineDescriptor descriptor{};
  descriptor.label = view(desc.label);
  descriptor.layout = pipeline->layout->pipeline.get();
  descriptor.compute.module = pipeline->module->get();
  descriptor.compute.entryPoint = view("main");
  descriptor.compute.constantCount = constants.size();
  descriptor.compute.constants = constants.data();
  std::string why;
  pipeline->handle = ComputePipeline(engine, engine.make_pipeline(device_.handle(), descriptor, why));
  // If it fails, the objects are invalid; the caches of modules and layouts do not keep them alive.
  const auto what = "compiling the kernel " + desc.label;
  TRY(scope.close(what));
  if (pipeline->handle) return pipeline;
  return fail(ErrorCode::gpu, "{} failed on {}: {}", what, device_.profile().name, why);
}

std::size_t Pipelines::other_objects() const {
  const std::lock_guard guard(mutex_);
  // Before those of the cache are counted: nothing comes into it now, so all of them are among these.
  const std::size_t all = device_.engine().live_objects();
  // Modules and layouts live as long as a pipeline that uses them. A layout is two objects.
  const auto alive = [](const auto& cache) {
    return static_cast<std::size_t>(std::ranges::count_if(cache, [](const auto& e) { return !e.second.expired(); }));
  };
  const auto made = std::ranges::count_if(pipelines_, [](const auto& e) { return e.second.pipeline != nullptr; });
  return all - static_cast<std::size_t>(made) - alive(modules_) - 2 * alive(layouts_);
}

std::vector<std::shared_ptr<const Pipeline>> Pipelines::take_unused() {
  std::vector<decltype(pipelines_)::iterator> unused;
  for (auto entry = pipelines_.begin(); entry != pipelines_.end(); ++entry) {
    auto& [pipeline, last_use] = entry->second;
    if (pipeline == nullptr) continue;
    // Only the cache has it. Others get it under this lock alone.
    if (pipeline.use_count() == 1) {
      unused.push_back(entry);
    } else {
      last_use = uses_;
    }
  }
  if (unused.size() <= kMostUnused) return {};
  std::ranges::sort(unused, {}, [](const auto& entry) { return entry->second.last_use; });
  unused.resize(unused.size() - kMostUnused);
  std::vector<std::shared_ptr<const Pipeline>> taken;
  taken.reserve(unused.size());
  for (const auto& entry : unused) taken.push_back(std::move(entry->second.pipeline));
  for (const auto& entry : unused) pipelines_.erase(entry);
  return taken;
}

std::shared_ptr<const BindLayout> Pipelines::bind_layout(std::span<const Access> bindings) {
  const auto key = access_key(bindings);
  {
    const std::lock_guard lock(mutex_);
    if (auto there = find_alive(layouts_, key)) return there;
  }
  std::vector<WGPUBindGroupLayoutEntry> entries(bindings.size() + 1);
  entries[0].visibility = WGPUShaderStage_Compute;
  entries[0].buffer.type = WGPUBufferBindingType_Uniform;
  entries[0].buffer.hasDynamicOffset = 1;
  entries[0].buffer.minBindingSize = kParamsStride;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    auto& entry = entries[i + 1];
    entry.binding = static_cast<std::uint32_t>(i + 1);
    entry.visibility = WGPUShaderStage_Compute;
    entry.buffer.type =
        bindings[i] == Access::read ? WGPUBufferBindingType_ReadOnlyStorage : WGPUBufferBindingType_Storage;
  }
  WGPUBindGroupLayoutDescriptor group{};
  group.entryCount = entries.size();
  group.entries = entries.data();
  auto layout = std::make_shared<BindLayout>();
  layout->group =
      BindGroupLayout(device_.engine(), device_.call().DeviceCreateBindGroupLayout(device_.handle(), &group));
  WGPUPipelineLayoutDescriptor pipeline{};
  WGPUBindGroupLayout raw = layout->group.get();
  pipeline.bindGroupLayoutCount = 1;
  pipeline.bindGroupLayouts = &raw;
  layout->pipeline =
      PipelineLayout(device_.engine(), device_.call().DeviceCreatePipelineLayout(device_.handle(), &pipeline));
  const std::lock_guard lock(mutex_);
  return add_alive<BindLayout>(layouts_, key, std::move(layout));
}

std::shared_ptr<const ShaderModule> Pipelines::shader_module(const PipelineDesc& desc) {
  const auto key = (desc.unchecked ? "!" : "") + desc.wgsl;
  {
    const std::lock_guard lock(mutex_);
    if (auto there = find_alive(modules_, key)) return there;
  }
  WGPUShaderSourceWGSL source{};
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = view(desc.wgsl);
  WGPUShaderModuleDescriptor descriptor{};
  descriptor.nextInChain = &source.chain;
  descriptor.label = view(desc.label);
  auto made = std::make_shared<ShaderModule>(
      device_.engine(), device_.engine().make_module(device_.handle(), descriptor, desc.unchecked));
  const std::lock_guard lock(mutex_);
  return add_alive<ShaderModule>(modules_, key, std::move(made));
}

}  // namespace nibble::gpu
