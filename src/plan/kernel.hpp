// A dispatch as an op describes it: a plain value that can be returned, stored and printed. Its texts are static, but
// for that of a tail, so they outlive every plan.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "graph/size.hpp"
#include "plan/inline_vector.hpp"
#include "plan/layout.hpp"
#include "plan/shader.hpp"

namespace nibble {

/// How a kernel sees a storage buffer: as tensor elements (with generated load and store functions), or raw.
enum class Elem : std::uint8_t { f32, f16, i32, boolean, u8, i8, words, words4, atomics };

Elem elem_of(DType dtype);

/// Names are literals: mostly the very same one, which saves reading them.
inline bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.data() == b.data() || a == b);
}

struct BindingFormat {
  std::string_view name;
  Access access = Access::read;
  Elem elem = Elem::f32;
  std::uint8_t lanes = 4;  ///< elements per load and store

  friend bool operator==(const BindingFormat& a, const BindingFormat& b) {
    return a.access == b.access && a.elem == b.elem && a.lanes == b.lanes && same_name(a.name, b.name);
  }
};

/// Which buffer is bound. A call looks up its BufferId; at load buffers have none yet.
struct BufferRef {
  enum class Kind : std::uint8_t {
    entry,    ///< a shard of a tensor's storage
    scratch,  ///< the node's working memory
    twin,     ///< the second buffer of a node whose output is also its input
    fault,
  };
  Kind kind = Kind::entry;
  std::uint32_t entry = 0;
  std::uint32_t shard = 0;
  bool operator==(const BufferRef&) const = default;
};

/// A storage buffer of a dispatch.
struct BufferArg {
  BindingFormat format;
  BufferRef buffer;

  BufferArg lanes(std::uint8_t n) const {
    BufferArg b = *this;
    b.format.lanes = n;
    return b;
  }
  BufferArg raw(Elem elem) const {
    BufferArg b = *this;
    b.format.elem = elem;
    return b;
  }
};

struct OverrideValue {
  std::string_view name;
  double value = 0;

  friend bool operator==(const OverrideValue& a, const OverrideValue& b) {
    return a.value == b.value && same_name(a.name, b.name);
  }
};

/// A slot of a shader, and the module that fills it.
struct SlotFill {
  SlotFill() = default;
  SlotFill(std::string_view slot, const Shader& filling) : name(slot), module(&filling) {}

  std::string_view name;
  const Shader* module = nullptr;

  friend bool operator==(const SlotFill& a, const SlotFill& b) {
    return a.module == b.module && same_name(a.name, b.name);
  }
};

/// The bytes of a WGSL struct `Params`: the first workgroup's number, which is 0 until the dispatch is cut into pieces,
/// and those of a parameter struct, which has the layout of what follows.
class Params {
 public:
  using FirstGroup = std::uint32_t;

  Params() {}  // NOLINT(modernize-use-equals-default): that would set all bytes to zero, in every dispatch of a call
  template <class T>
    requires(!std::is_same_v<T, Params>)
  Params(const T& params) : size_(sizeof(FirstGroup) + sizeof(T)) {
    static_assert(sizeof(FirstGroup) + sizeof(T) <= kParamsStride && std::is_trivially_copyable_v<T>);
    constexpr FirstGroup kFirst = 0;
    std::memcpy(bytes_.data(), &kFirst, sizeof(kFirst));
    std::memcpy(bytes_.data() + sizeof(kFirst), &params, sizeof(T));
  }

  std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }
  /// The numbers of a tail: the last member of the struct is `tail: array<vec4<f32>, 4>`. Tells whether they fit.
  [[nodiscard]] bool set_tail(std::span<const std::array<float, 4>> numbers) {
    constexpr std::size_t kBytes = 4 * sizeof(numbers[0]);
    if (numbers.size_bytes() > kBytes || size_ < kBytes) return false;
    if (!numbers.empty()) std::memcpy(bytes_.data() + (size_ - kBytes), numbers.data(), numbers.size_bytes());
    return true;
  }

 private:
  std::uint32_t size_ = 0;
  alignas(8) std::array<std::byte, kParamsStride> bytes_;  // only the first size_ are set
};

/// The buffers of a dispatch, in the order of their bindings.
using Bindings = InlineVector<BufferArg, kMaxBindings>;
using Overrides = InlineVector<OverrideValue, 10>;
using Slots = InlineVector<SlotFill, 10>;

/// Elementwise ops between what a kernel computes and its result; see chain.hpp, whose chain lives as long as this.
struct Tail {
  std::string_view text{};
  std::span<const Shader* const> functions{};
};

struct Kernel {
  std::reference_wrapper<const Shader> shader;
  Bindings bind{};
  Params params{};
  std::uint64_t threads = 0;  ///< 0: nothing to do in this call
  std::uint32_t workgroup = 64;
  /// Of all threads, if they go round loops: about how many vec4s they read or multiply. See batches.hpp.
  Size work = 0;
  /// In any call, where this is more than at the largest shapes, because it depends on the caller's integers.
  Size most_work = 0;
  bool fits = true;           ///< its tiles end where the tensors do; else it may read past them, and needs checks
  bool unchecked = false;     ///< without bounds checks; see bounds.hpp
  bool whole_groups = false;  ///< the threads of a workgroup work together, so its size must not change
  Overrides overrides{};
  Slots slots{};
  std::string_view expression{};
  Tail tail{};

  /// Whether one of the lists above was too short.
  bool overflowed() const { return bind.overflowed() || overrides.overflowed() || slots.overflowed(); }
};

/// One line that describes the kernel.
std::string to_string(const Kernel& kernel);

}  // namespace nibble
