#include "gpu/wgpu.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "graph/guarded.hpp"

namespace nibble::gpu {
namespace {

constexpr std::array<const char*, 2> kNames = {"libwgpu_native-release.so", "libwgpu_native.so"};
constexpr const char* kVariable = "NIBBLE_WGPU_LIBRARY";
/// Structs of webgpu.h change between major versions, so no other version can be used.
constexpr std::uint32_t kMajorVersion = 29;

struct Loader {
  std::mutex mutex;
  std::string path;  ///< set_wgpu_library()
  bool loaded = false;
  Wgpu table;
  WGPUInstance instance = nullptr;

  std::mutex log_mutex;
  std::string log;
};

/// Never destroyed, because handles in other static objects may still need it at exit.
Loader& loader() {
  static Loader& one = *new Loader;
  return one;
}

std::string folder_of(std::string path) {
  std::array<char, PATH_MAX> real{};
  if (realpath(path.c_str(), real.data()) != nullptr) path = real.data();
  auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

void add_matches(const std::string& pattern, std::vector<std::string>& out) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
}

/// Folders that may hold the library: the wgpu wheel next to Nibble's own, then the one that the build used.
std::vector<std::string> folders() {
  std::vector<std::string> out;
  // Nibble's library is in <site-packages>/nibble/lib.
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&folders), &self) != 0 && self.dli_fname != nullptr) {
    add_matches(folder_of(self.dli_fname) + "/../../wgpu/resources", out);
  }
  // The command is in <environment>/bin.
  std::array<char, PATH_MAX> exe{};
  if (readlink("/proc/self/exe", exe.data(), exe.size() - 1) > 0) {
    for (const char* lib : {"lib", "lib64", "local/lib"}) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        add_matches(fmt::format("{}/../{}/python3*/{}/wgpu/resources", folder_of(exe.data()), lib, packages), out);
      }
    }
  }
#ifdef NIBBLE_WGPU_DEFAULT
  out.emplace_back(NIBBLE_WGPU_DEFAULT);
#endif
  return out;
}

Status take_symbols(void* library, const std::string& path, Wgpu& table) {
  auto take = [&](const char* name, auto& slot) -> Status {
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name));
    if (slot == nullptr) return fail(ErrorCode::gpu, "{} is not a wgpu-native library: it has no {}", path, name);
    return {};
  };
#define NIBBLE_WGPU_TAKE(name) TRY(take("wgpu" #name, table.name));
  NIBBLE_WGPU_STANDARD(NIBBLE_WGPU_TAKE)
  NIBBLE_WGPU_EXTRAS(NIBBLE_WGPU_TAKE)
#undef NIBBLE_WGPU_TAKE
  if (auto version = table.GetVersion(); version >> 24 != kMajorVersion) {
    return fail(ErrorCode::gpu, "{} is wgpu-native {}.{}, but Nibble needs version {}", path, version >> 24,
                version >> 16 & 0xff, kMajorVersion);
  }
  return {};
}

Result<void*> open_library(const std::string& chosen, std::string& path) {
  const char* variable = std::getenv(kVariable);
  path = !chosen.empty() ? chosen : variable != nullptr ? variable : "";
  if (!path.empty()) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = dlerror();
    return fail(ErrorCode::gpu, "wgpu-native could not be loaded from {}: {}", path,
                why != nullptr ? why : "no reason");
  }
  auto places = folders();
  for (const auto& folder : places) {
    for (const char* name : kNames) {
      path = folder + "/" + name;
      if (access(path.c_str(), R_OK) != 0) continue;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  for (const char* name : kNames) {
    path = name;
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return fail(ErrorCode::gpu,
              "wgpu-native was not found: neither {} nor {} lies in [{}] or on the loader's path; install the Python "
              "package wgpu beside Nibble, or name the file in ${}",
              kNames[0], kNames[1], fmt::join(places, ", "), kVariable);
}

WGPUInstance make_instance(const Wgpu& table, WGPUInstanceBackend backends) {
  WGPUInstanceExtras extras{};
  extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
  extras.backends = backends;
  WGPUInstanceDescriptor descriptor{};
  descriptor.nextInChain = &extras.chain;
  return table.CreateInstance(&descriptor);
}

void on_log(WGPULogLevel level, WGPUStringView message, void*) {
  if (level != WGPULogLevel_Error) return;
  std::lock_guard guard(loader().log_mutex);
  // wgpu does not expect an exception.
  loader().log = guarded([&] { return std::string(view(message)); }, [] { return no_memory().message; });
}

}  // namespace

void set_wgpu_library(std::string path) {
  std::lock_guard guard(loader().mutex);
  loader().path = std::move(path);
}

Status load_wgpu() {
  Loader& one = loader();
  std::lock_guard guard(one.mutex);
  if (one.loaded) return {};
  std::string path;
  TRY_ASSIGN(void* library, open_library(one.path, path));
  Wgpu table;
  if (auto status = take_symbols(library, path, table); !status) {
    dlclose(library);
    return status;
  }
  table.SetLogCallback(on_log, nullptr);
  table.SetLogLevel(WGPULogLevel_Error);
  // Mesa's device-select layer asks Wayland for its GPU, which prints errors to stderr if there is no session. Nibble
  // chooses its adapter itself.
  if (std::getenv("XDG_RUNTIME_DIR") == nullptr) setenv("NODEVICE_SELECT", "1", 0);
  one.instance =
      make_instance(table, WGPUInstanceBackend_Vulkan | WGPUInstanceBackend_Metal | WGPUInstanceBackend_DX12);
  // Looking for OpenGL is slow and noisy (EGL writes to stderr), so do it only if there is no other adapter.
  if (one.instance == nullptr || table.InstanceEnumerateAdapters(one.instance, nullptr, nullptr) == 0) {
    if (one.instance != nullptr) table.InstanceRelease(one.instance);
    one.instance = make_instance(table, WGPUInstanceBackend_GL);
  }
  if (one.instance == nullptr) return fail(ErrorCode::gpu, "wgpu-native at {} could not make an instance", path);
  one.table = table;
  one.loaded = true;
  return {};
}

const Wgpu& wgpu() { return loader().table; }

WGPUInstance instance() { return loader().instance; }

std::string last_log() {
  std::lock_guard guard(loader().log_mutex);
  return loader().log;
}

}  // namespace nibble::gpu
