#include "gpu/engines/engines.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>

namespace nibble::gpu {
namespace {

using Names = std::map<std::string, void*, std::less<>>;

constexpr std::array<std::string_view, 2> kEngines = {"dawn", "wgpu"};
constexpr std::array<const char*, 2> kWgpuNames = {"libwgpu_native-release.so", "libwgpu_native.so"};
constexpr const char* kWgpuVariable = "NIBBLE_WGPU_LIBRARY";
constexpr const char* kDawnVariable = "NIBBLE_DAWN_LIBRARY";

struct Loader {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> paths;  ///< set_engine_library()
  Names dawn;                                             ///< set_dawn_functions()
  std::atomic<void (*)()> provide_dawn = nullptr;         ///< set_dawn_provider()
  std::map<std::string, std::unique_ptr<Engine>, std::less<>> loaded;
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

/// Folders that may hold wgpu-native: the wgpu wheel next to Nibble's own, then the one that the build used.
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

/// An opened library, closed again unless an engine took its functions.
struct Library {
  void* handle = nullptr;
  std::string path;

  bool open(std::string at) {
    path = std::move(at);
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle != nullptr;
  }
  template <class Make>
  Result<std::unique_ptr<Engine>> make(Make&& engine) const {
    auto made = engine([](void* library, const char* name) { return dlsym(library, name); }, handle, path);
    if (!made) dlclose(handle);
    return made;
  }
};

/// The path that the caller or a variable gives, or "".
std::string given_path(const Loader& one, std::string_view engine, const char* variable) {
  if (auto found = one.paths.find(engine); found != one.paths.end()) return found->second;
  const char* path = std::getenv(variable);
  return path != nullptr ? path : "";
}

std::unexpected<Error> not_loaded(std::string_view what, std::string_view path) {
  const char* why = dlerror();
  return fail(ErrorCode::gpu, "{} could not be loaded from {}: {}", what, path, why != nullptr ? why : "no reason");
}

Result<std::unique_ptr<Engine>> load_wgpu(const Loader& one) {
  Library library;
  if (const auto path = given_path(one, "wgpu", kWgpuVariable); !path.empty()) {
    return library.open(path) ? library.make(make_wgpu_native) : not_loaded("wgpu-native", path);
  }
  const auto places = folders();
  for (const auto& folder : places) {
    for (const char* name : kWgpuNames) {
      const auto path = folder + "/" + name;
      if (access(path.c_str(), R_OK) == 0 && library.open(path)) return library.make(make_wgpu_native);
    }
  }
  for (const char* name : kWgpuNames) {
    if (library.open(name)) return library.make(make_wgpu_native);
  }
  return fail(ErrorCode::gpu,
              "wgpu-native was not found: neither {} nor {} lies in [{}] or on the loader's path; install the Python "
              "package wgpu beside Nibble, or name the file in ${}",
              kWgpuNames[0], kWgpuNames[1], fmt::join(places, ", "), kWgpuVariable);
}

Result<std::unique_ptr<Engine>> load_dawn(Loader& one) {
  if (const auto path = given_path(one, "dawn", kDawnVariable); !path.empty()) {
    Library library;
    const auto make = [](FindFunction find, void* from, std::string_view at) {
      return make_dawn(find, from, at, false);
    };
    return library.open(path) ? library.make(make) : not_loaded("Dawn", path);
  }
  if (one.dawn.empty()) {
    return fail(ErrorCode::gpu,
                "Dawn is not here: install the Python package wgpudawn beside Nibble "
                "(`pip install 'nibble-runtime[dawn]'`), or name a library of Dawn in ${}",
                kDawnVariable);
  }
  const FindFunction find = [](void* names, const char* name) -> void* {
    const auto& all = *static_cast<const Names*>(names);
    const auto found = all.find(name);
    return found != all.end() ? found->second : nullptr;
  };
  return make_dawn(find, &one.dawn, "the package wgpudawn", true);
}

Status check_name(std::string_view name) {
  if (std::ranges::find(kEngines, name) != kEngines.end()) return {};
  return fail(ErrorCode::invalid_argument, "there is no engine \"{}\"; there are: {}", name, fmt::join(kEngines, ", "));
}

}  // namespace

Result<Functions> take_functions(FindFunction find, void* from, std::string_view where) {
  Functions functions;
#define NIBBLE_WEBGPU_TAKE(name) TRY(take_function(find, from, where, "wgpu" #name, functions.name));
  NIBBLE_WEBGPU_FUNCTIONS(NIBBLE_WEBGPU_TAKE)
#undef NIBBLE_WEBGPU_TAKE
  return functions;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool space = c == '\n' || c == '\t' || c == ' ' || c == '\r';
    if (!space) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::span<const std::string_view> engine_names() { return kEngines; }

Result<std::string_view> chosen_engine(std::string_view given) {
  const char* variable = std::getenv("NIBBLE_ENGINE");
  if (given.empty() && variable != nullptr) given = variable;
  if (!given.empty()) TRY(check_name(given));
  return given;
}

Status set_engine_library(std::string_view name, std::string path) {
  TRY(check_name(name));
  std::lock_guard guard(loader().mutex);
  loader().paths.insert_or_assign(std::string(name), std::move(path));
  return {};
}

void set_dawn_functions(std::vector<std::pair<std::string, void*>> functions) {
  std::lock_guard guard(loader().mutex);
  // An engine that is loaded has its own copy.
  loader().dawn = Names(functions.begin(), functions.end());
}

std::vector<Engine*> loaded_engines() {
  std::lock_guard guard(loader().mutex);
  std::vector<Engine*> all;
  for (const auto& [name, one] : loader().loaded) all.push_back(one.get());
  return all;
}

void set_dawn_provider(void (*provide)()) { loader().provide_dawn = provide; }

Result<Engine*> engine(std::string_view name) {
  Loader& one = loader();
  {
    std::lock_guard guard(one.mutex);
    if (auto found = one.loaded.find(name); found != one.loaded.end()) return found->second.get();
  }
  // Without the lock: it may wait for others, such as those that hold Python's.
  if (const auto provide = one.provide_dawn.load(); name == "dawn" && provide != nullptr) provide();
  std::lock_guard guard(one.mutex);
  if (auto found = one.loaded.find(name); found != one.loaded.end()) return found->second.get();
  // Mesa's device-select layer asks Wayland for its GPU, which prints errors to stderr if there is no session. Nibble
  // chooses its adapter itself.
  if (std::getenv("XDG_RUNTIME_DIR") == nullptr) setenv("NODEVICE_SELECT", "1", 0);
  TRY_ASSIGN(auto made, name == "dawn" ? load_dawn(one) : load_wgpu(one));
  return one.loaded.emplace(std::string(name), std::move(made)).first->second.get();
}

}  // namespace nibble::gpu
