// Bind groups and parameters of a list of dispatches, and how they are encoded.
#pragma once

#include <unordered_map>

#include "gpu/device.hpp"
#include "plan/layout.hpp"

namespace nibble::gpu {

struct Timer;

class Dispatcher {
 public:
  /// For at most `most` dispatches on these buffers, which belong to the caller.
  static Result<Dispatcher> make(Device& device, std::span<const std::shared_ptr<const Pipeline>> pipelines,
                                 std::span<const WGPUBuffer> buffers, std::size_t most);

  /// Binds the buffers and uploads the parameters, one block of kParamsStride for each dispatch.
  Status prepare(std::span<const Dispatch* const> dispatches, std::span<const std::byte> params);
  /// Forgets all bind groups, as one of them may be invalid.
  void forget() { groups_.clear(); }
  /// The prepared dispatches from `begin` to `end`, in one pass; with a timer, in a pass each.
  void encode(WGPUCommandEncoder encoder, std::size_t begin, std::size_t end, const Timer* timer);
  /// All of them, `times` times in one pass, which the timer measures as its first dispatch.
  void encode_again(WGPUCommandEncoder encoder, std::uint32_t times, const Timer* timer);

 private:
  struct GroupKey {
    const BindLayout* layout = nullptr;
    std::array<BufferId, kMaxBindings> buffers{};
    bool operator==(const GroupKey&) const = default;
  };
  struct GroupHash {
    std::size_t operator()(const GroupKey& key) const noexcept;
  };
  struct Bound {
    const Dispatch* dispatch = nullptr;
    WGPUBindGroup group = nullptr;
  };

  Dispatcher(Device& device, std::span<const std::shared_ptr<const Pipeline>> pipelines,
             std::span<const WGPUBuffer> buffers)
      : device_(&device), pipelines_(pipelines), buffers_(buffers) {}

  WGPUBindGroup bind_group(const Dispatch& dispatch);
  ComputePass begin_pass(WGPUCommandEncoder encoder, const Timer* timer, std::size_t timed) const;
  void add(WGPUComputePassEncoder pass, std::size_t i, WGPUComputePipeline& current) const;

  Device* device_;
  std::span<const std::shared_ptr<const Pipeline>> pipelines_;
  std::span<const WGPUBuffer> buffers_;
  Buffer params_;
  std::unordered_map<GroupKey, BindGroup, GroupHash> groups_;
  std::vector<Bound> bound_;
};

}  // namespace nibble::gpu
