#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "allocations.hpp"

namespace nibble::test {

thread_local Allocations allocations;

namespace {

enum class Owner : std::uint8_t { ours, library, other };

Owner owner_of(const void* code) {
  static const void* const base = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<const void*>(&owner_of), &info);
    return info.dli_fbase;
  }();
  Dl_info info{};
  if (dladdr(code, &info) == 0 || info.dli_fbase == base) return Owner::ours;
  return std::strstr(info.dli_fname, "libstdc++") != nullptr ? Owner::library : Owner::other;
}

/// The C++ library allocates for whoever called it.
bool is_ours(const void* caller) {
  const auto owner = owner_of(caller);
  if (owner != Owner::library) return owner == Owner::ours;
  std::array<void*, 32> frames{};
  const auto depth = static_cast<std::size_t>(std::max(0, backtrace(frames.data(), static_cast<int>(frames.size()))));
  bool below = false;
  for (std::size_t i = 0; i < depth; ++i) {
    const auto who = owner_of(frames[i]);
    if (below && who != Owner::library) return who == Owner::ours;
    below = below || who == Owner::library;
  }
  return false;
}

void* allocate(std::size_t bytes, const void* caller) noexcept {
  if (allocations.counting) {
    allocations.counting = false;  // what follows may allocate
    const bool is_counted = is_ours(caller);
    allocations.counting = true;
    if (is_counted && ++allocations.counted == allocations.fail_at) return nullptr;
  }
  return std::malloc(bytes != 0 ? bytes : 1);
}

void* allocate_or_throw(std::size_t bytes, const void* caller) {
  void* memory = allocate(bytes, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace nibble::test

void* operator new(std::size_t bytes) { return nibble::test::allocate_or_throw(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return nibble::test::allocate_or_throw(bytes, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return nibble::test::allocate(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return nibble::test::allocate(bytes, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
