#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "allocations.hpp"
#include "gpu_fixture.hpp"
#include "support/small_programs.hpp"

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
    const bool counts = is_ours(caller);
    allocations.counting = true;
    if (counts && ++allocations.counted == allocations.fail_at) return nullptr;
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

namespace nibble::test {
namespace {

TEST_F(GpuTest, counting_sees_an_allocation) {
  allocations.counted = 0;
  allocations.counting = true;
  const auto text = std::make_unique<std::string>(100, 'x');
  allocations.counting = false;
  EXPECT_GE(allocations.counted, 2) << text->size();
}

// ids + 1 goes through the elementwise, the embedding and the reduction kernels, dynamic in length.
TEST_F(GpuTest, a_call_in_the_steady_state_allocates_nothing) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {1, 100});
  const int one = b.constant(DType::i32, {1}, std::vector<std::int32_t>{1});
  const int next = b.tensor(DType::i32, {1, 100});
  b.op("aten.add.Tensor", {ids, one, b.integer(1), next});
  const int rows = add_embedding(b, next, {1, 100});
  const int mean = b.tensor(DType::f32, {1, 1, kWidth});
  b.op("aten.mean.dim", {rows, b.ints({1}), b.boolean(true), b.null(), mean});
  b.inputs({ids});
  b.outputs({mean, rows});
  auto loaded = load(b);
  ASSERT_TRUE(succeeds(loaded));

  const std::vector<std::int64_t> values(100, 20);
  std::vector<double> first(kWidth);
  std::vector<float> second(100 * kWidth);
  const std::array<HostOutput, 2> outputs = {HostOutput{DType::f64, first.data(), first.size() * 8},
                                             HostOutput{DType::f32, second.data(), second.size() * 4}};
  long in_all = 0;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t count = i < 20 ? 17 : 1 + 33 * (i % 4);
    const HostTensor in = tensor(DType::i64, {1, count}, values);
    allocations.counted = 0;
    allocations.counting = true;
    const auto set = loaded->session.set_inputs({&in, 1});
    const auto run = set ? loaded->session.execute(outputs) : set;
    allocations.counting = false;
    ASSERT_TRUE(succeeds(run));
    EXPECT_EQ(static_cast<float>(first[3]), embedded(21, 3));
    const bool is_steady = (i >= 1 && i < 20) || i >= 24;
    if (is_steady) in_all += allocations.counted;
  }
  EXPECT_EQ(in_all, 0);
}

// A language model's step: the place moves on, keys are split once there are enough of them.
TEST_F(GpuTest, a_decode_step_allocates_nothing) {
  constexpr std::uint32_t kPlaces = 100;
  constexpr std::size_t kStep = std::size_t{4} * 8;
  auto loaded = load(cached_attention_blob(kPlaces));
  ASSERT_TRUE(succeeds(loaded));

  const std::vector<float> ones(kStep, 1);
  std::vector<float> result(kStep);
  const HostOutput output{DType::f32, result.data(), result.size() * 4};
  for (const bool is_steady : {false, true}) {
    for (std::int64_t at = 0; at < kPlaces; ++at) {
      const std::vector<std::int64_t> position = {at};
      const HostTensor x = tensor(DType::f32, {1, 1, 4, 8}, ones);
      const std::array inputs = {x, x, x, tensor(DType::i64, {1}, position)};
      allocations.counted = 0;
      allocations.counting = true;
      const auto set = loaded->session.set_inputs(inputs);
      const auto run = set ? loaded->session.execute({&output, 1}) : set;
      allocations.counting = false;
      ASSERT_TRUE(succeeds(run)) << at;
      EXPECT_NEAR(result[5], 1, 1e-5) << at;
      EXPECT_TRUE(!is_steady || allocations.counted == 0) << allocations.counted << " at place " << at;
    }
  }
}

}  // namespace
}  // namespace nibble::test
