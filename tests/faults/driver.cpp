// A Vulkan driver that fails on purpose. It stands before a real one ($NIBBLE_FAULTS_DRIVER is the path of its
// library), hands every call on, and fails the one that a test names. Tests open this library too, for the functions at
// its end.
//
// It needs no headers of Vulkan: whatever it wraps takes at most six integers or pointers. All of these are passed in
// registers, so that handing on more than a function takes does no harm.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace {

using Word = std::uintptr_t;
using Result = std::int32_t;  // VkResult
using Call = Result (*)(Word, Word, Word, Word, Word, Word);
using Function = void (*)();
using Find = Function (*)(Word instance_or_device, const char* name);

constexpr Result kSuccess = 0;
constexpr Result kInitializationFailed = -3;
constexpr Result kDeviceLost = -4;

enum class Lost : bool { ignores, says };

struct Wrapped {
  std::string_view name;  ///< without KHR
  Lost lost;              ///< whether Vulkan lets it say that the device was lost before
};

constexpr std::array kWrapped = {
    Wrapped{"vkAllocateCommandBuffers", Lost::ignores},
    Wrapped{"vkAllocateDescriptorSets", Lost::ignores},
    Wrapped{"vkAllocateMemory", Lost::ignores},
    Wrapped{"vkBeginCommandBuffer", Lost::ignores},
    Wrapped{"vkBindBufferMemory", Lost::ignores},
    Wrapped{"vkBindBufferMemory2", Lost::ignores},
    Wrapped{"vkCreateBuffer", Lost::ignores},
    Wrapped{"vkCreateCommandPool", Lost::ignores},
    Wrapped{"vkCreateComputePipelines", Lost::ignores},
    Wrapped{"vkCreateDescriptorPool", Lost::ignores},
    Wrapped{"vkCreateDescriptorSetLayout", Lost::ignores},
    Wrapped{"vkCreateDevice", Lost::ignores},
    Wrapped{"vkCreateFence", Lost::ignores},
    Wrapped{"vkCreateInstance", Lost::ignores},
    Wrapped{"vkCreatePipelineCache", Lost::ignores},
    Wrapped{"vkCreatePipelineLayout", Lost::ignores},
    Wrapped{"vkCreateQueryPool", Lost::ignores},
    Wrapped{"vkCreateSemaphore", Lost::ignores},
    Wrapped{"vkCreateShaderModule", Lost::ignores},
    Wrapped{"vkDeviceWaitIdle", Lost::says},
    Wrapped{"vkEndCommandBuffer", Lost::ignores},
    Wrapped{"vkEnumeratePhysicalDevices", Lost::ignores},
    Wrapped{"vkFlushMappedMemoryRanges", Lost::ignores},
    Wrapped{"vkGetFenceStatus", Lost::says},
    Wrapped{"vkGetQueryPoolResults", Lost::says},
    Wrapped{"vkGetSemaphoreCounterValue", Lost::says},
    Wrapped{"vkInvalidateMappedMemoryRanges", Lost::ignores},
    Wrapped{"vkMapMemory", Lost::ignores},
    Wrapped{"vkMapMemory2", Lost::ignores},
    Wrapped{"vkQueueSubmit", Lost::says},
    Wrapped{"vkQueueSubmit2", Lost::says},
    Wrapped{"vkQueueWaitIdle", Lost::says},
    Wrapped{"vkResetCommandBuffer", Lost::ignores},
    Wrapped{"vkResetCommandPool", Lost::ignores},
    Wrapped{"vkResetDescriptorPool", Lost::ignores},
    Wrapped{"vkResetFences", Lost::ignores},
    Wrapped{"vkSignalSemaphore", Lost::ignores},
    Wrapped{"vkWaitForFences", Lost::says},
    Wrapped{"vkWaitSemaphores", Lost::says},
};

constexpr std::size_t kNone = kWrapped.size();

consteval std::size_t place_of(std::string_view name) {
  for (std::size_t i = 0; i < kWrapped.size(); ++i) {
    if (kWrapped[i].name == name) return i;
  }
  std::abort();
}

std::size_t find_wrapped(std::string_view name) {
  if (name.ends_with("KHR")) name.remove_suffix(3);
  for (std::size_t i = 0; i < kWrapped.size(); ++i) {
    if (kWrapped[i].name == name) return i;
  }
  return kNone;
}

struct State {
  std::mutex mutex;
  std::array<Function, kWrapped.size()> real{};
  std::array<std::uint64_t, kWrapped.size()> calls{};
  Function get_queue = nullptr, get_queue2 = nullptr, destroy_device = nullptr, free_memory = nullptr;
  Find find_in_device = nullptr;

  std::size_t fault = kNone;  ///< the function that is to fail
  std::uint64_t calls_left = 0;
  Result result = kSuccess;
  std::uint64_t failed = 0;

  std::map<Word, Word> device_of_queue;
  Word last_device = 0;
  std::set<Word> devices, lost;
  std::int64_t memories = 0;
};

State& state() {
  static State& one = *new State;  // threads of the real driver may call when the process ends
  return one;
}

/// The device that a function is called on, or 0. One at a time makes command buffers.
Word device_of(const State& s, std::size_t place, Word object) {
  constexpr std::array kOfInstance = {place_of("vkCreateDevice"), place_of("vkCreateInstance"),
                                      place_of("vkEnumeratePhysicalDevices")};
  if (std::ranges::find(kOfInstance, place) != kOfInstance.end()) return 0;
  if (s.devices.contains(object)) return object;
  const auto queue = s.device_of_queue.find(object);
  return queue != s.device_of_queue.end() ? queue->second : s.last_device;
}

/// What a call is to answer in place of the real driver, or kSuccess if it is to be handed on.
Result fault_of(std::size_t place, Word object) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  ++s.calls[place];
  const Word device = device_of(s, place, object);
  Result result = kSuccess;
  if (s.fault == place && --s.calls_left == 0) {
    result = s.result;
    s.fault = kNone;
  } else if (kWrapped[place].lost == Lost::says && s.lost.contains(device)) {
    result = kDeviceLost;
  }
  if (result == kSuccess) return result;
  ++s.failed;
  if (result == kDeviceLost && device != 0 && s.lost.insert(device).second) {
    // A lost device has stopped. The real one has not: what it works on would be freed underneath it.
    const Function wait = s.find_in_device(device, "vkDeviceWaitIdle");
    lock.unlock();
    reinterpret_cast<Call>(wait)(device, 0, 0, 0, 0, 0);
  }
  return result;
}

void was_made(std::size_t place, Word where) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (place == place_of("vkAllocateMemory")) ++s.memories;
  if (place != place_of("vkCreateDevice")) return;
  s.last_device = *reinterpret_cast<Word*>(where);
  s.devices.insert(s.last_device);
  s.lost.erase(s.last_device);  // the memory of one that is gone
}

template <std::size_t I>
Result wrapped(Word a, Word b, Word c, Word d, Word e, Word f) {
  if (const Result failed = fault_of(I, a); failed != kSuccess) {
    // This one alone has to say which of its objects it did not make.
    if constexpr (I == place_of("vkCreateComputePipelines")) {
      for (Word i = 0; i < static_cast<std::uint32_t>(c); ++i) reinterpret_cast<std::uint64_t*>(f)[i] = 0;
    }
    return failed;
  }
  const Result result = reinterpret_cast<Call>(state().real[I])(a, b, c, d, e, f);
  if (result == kSuccess) was_made(I, d);
  return result;
}

template <std::size_t... I>
constexpr auto wrappers_of(std::index_sequence<I...>) {
  return std::array<Call, sizeof...(I)>{wrapped<I>...};
}
constexpr auto kWrappers = wrappers_of(std::make_index_sequence<kWrapped.size()>());

void keep_queue(Word device, Word queue) {
  const std::lock_guard guard(state().mutex);
  state().device_of_queue[*reinterpret_cast<Word*>(queue)] = device;
}

void get_queue(Word device, Word family, Word index, Word queue) {
  reinterpret_cast<Call>(state().get_queue)(device, family, index, queue, 0, 0);
  keep_queue(device, queue);
}

void get_queue2(Word device, Word info, Word queue) {
  reinterpret_cast<Call>(state().get_queue2)(device, info, queue, 0, 0, 0);
  keep_queue(device, queue);
}

void destroy_device(Word device, Word allocator) {
  {
    const std::lock_guard guard(state().mutex);
    state().devices.erase(device);
  }
  reinterpret_cast<Call>(state().destroy_device)(device, allocator, 0, 0, 0, 0);
}

void free_memory(Word device, Word memory, Word allocator) {
  reinterpret_cast<Call>(state().free_memory)(device, memory, allocator, 0, 0, 0);
  const std::lock_guard guard(state().mutex);
  if (memory != 0) --state().memories;
}

Function find_in_device(Word device, const char* name);

/// Our function of this name, in place of the real one; the real one if there is none.
Function replace(std::string_view name, Function real) {
  if (real == nullptr) return nullptr;
  State& s = state();
  const std::lock_guard guard(s.mutex);
  const auto keep = [&](auto& kept, auto ours) {
    kept = reinterpret_cast<std::remove_reference_t<decltype(kept)>>(real);
    return reinterpret_cast<Function>(ours);
  };
  if (name == "vkGetDeviceProcAddr") return keep(s.find_in_device, find_in_device);
  if (name == "vkGetDeviceQueue") return keep(s.get_queue, get_queue);
  if (name == "vkGetDeviceQueue2") return keep(s.get_queue2, get_queue2);
  if (name == "vkDestroyDevice") return keep(s.destroy_device, destroy_device);
  if (name == "vkFreeMemory") return keep(s.free_memory, free_memory);
  const auto place = find_wrapped(name);
  return place == kNone ? real : keep(s.real[place], kWrappers[place]);
}

Function find_in_device(Word device, const char* name) { return replace(name, state().find_in_device(device, name)); }

template <class T>
T of_real_driver(const char* name) {
  static void* const library = [] {
    const char* path = std::getenv("NIBBLE_FAULTS_DRIVER");
    void* opened = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (opened == nullptr) std::fprintf(stderr, "$NIBBLE_FAULTS_DRIVER names no library: %s\n", dlerror());
    return opened;
  }();
  return library != nullptr ? reinterpret_cast<T>(dlsym(library, name)) : nullptr;
}

}  // namespace

#define NIBBLE_EXPORT extern "C" [[gnu::visibility("default")]]

// What Vulkan's loader calls, by its names.
// NOLINTBEGIN(readability-identifier-naming)

NIBBLE_EXPORT Function vk_icdGetInstanceProcAddr(Word instance, const char* name) {
  static const auto find = of_real_driver<Find>("vk_icdGetInstanceProcAddr");
  return find != nullptr ? replace(name, find(instance, name)) : nullptr;
}

NIBBLE_EXPORT Function vk_icdGetPhysicalDeviceProcAddr(Word instance, const char* name) {
  static const auto find = of_real_driver<Find>("vk_icdGetPhysicalDeviceProcAddr");
  return find != nullptr ? find(instance, name) : nullptr;
}

NIBBLE_EXPORT Result vk_icdNegotiateLoaderICDInterfaceVersion(std::uint32_t* version) {
  static const auto negotiate = of_real_driver<Result (*)(std::uint32_t*)>("vk_icdNegotiateLoaderICDInterfaceVersion");
  return negotiate != nullptr ? negotiate(version) : kInitializationFailed;
}
// NOLINTEND(readability-identifier-naming)

// What tests call.

/// The i-th function that can fail; null after the last.
NIBBLE_EXPORT const char* nibble_faults_name(std::size_t i) { return i < kNone ? kWrapped[i].name.data() : nullptr; }

/// Whether Vulkan lets a function say that the device is lost.
NIBBLE_EXPORT bool nibble_faults_can_lose(const char* name) {
  const auto place = find_wrapped(name);
  return place != kNone && (kWrapped[place].lost == Lost::says || place == place_of("vkCreateDevice"));
}

/// From now on the k-th call of a function fails, once. No name: none does. Lost devices stay lost.
NIBBLE_EXPORT bool nibble_faults_set(const char* name, std::uint64_t k, Result result) {
  State& s = state();
  const auto place = name != nullptr ? find_wrapped(name) : kNone;
  const std::lock_guard guard(s.mutex);
  s.fault = k != 0 ? place : kNone;
  s.calls_left = k;
  s.result = result;
  s.failed = 0;
  s.calls = {};
  return place != kNone;
}

/// Calls of a function, and calls that failed, since the last nibble_faults_set().
NIBBLE_EXPORT std::uint64_t nibble_faults_calls(const char* name) {
  const auto place = find_wrapped(name);
  const std::lock_guard guard(state().mutex);
  return place != kNone ? state().calls[place] : 0;
}
NIBBLE_EXPORT std::uint64_t nibble_faults_failed() {
  const std::lock_guard guard(state().mutex);
  return state().failed;
}

/// Devices that are open, and pieces of memory that they hold.
NIBBLE_EXPORT std::uint64_t nibble_faults_devices() {
  const std::lock_guard guard(state().mutex);
  return state().devices.size();
}
NIBBLE_EXPORT std::int64_t nibble_faults_memories() {
  const std::lock_guard guard(state().mutex);
  return state().memories;
}
