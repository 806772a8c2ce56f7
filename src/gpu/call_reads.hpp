// What a call reads back: its outputs, and whether there was a fault. Buffers that the host can map are mapped; all
// else is copied to one buffer first.
#pragma once

#include <span>
#include <vector>

#include "gpu/readback.hpp"
#include "plan/layout.hpp"

namespace nibble::gpu {

class CallReads {
 public:
  Status make(Device& device, const Layout& layout, std::span<const WGPUBuffer> buffers);

  /// Begins with nothing.
  void clear();
  void add_output(std::size_t output, std::uint64_t count);
  void add_fault();
  bool empty() const { return bytes_in_use_ == 0; }

  /// Copies what is not mapped, after all dispatches.
  void encode(WGPUCommandEncoder encoder) const;
  /// After the submission, inside an ErrorScope: starts to map.
  void request();
  /// Waits for the submission. Then data() is readable until release().
  Status wait(Submission submission);
  /// Also where a call failed: what is mapped cannot be used by the next one.
  void release();

  struct Output {
    std::size_t output = 0;
    std::uint64_t count = 0;
    const std::byte* data = nullptr;  ///< after wait()
  };
  std::span<const Output> outputs() const { return outputs_; }
  const std::byte* fault() const { return fault_; }  ///< after wait(), if it was added

 private:
  /// Something that is mapped.
  struct Source {
    Readback readback;
    std::uint64_t bytes = 0;  ///< that the call wants; 0: it is left alone
    std::span<const std::byte> seen;
  };
  /// Where something is, and its place in a source.
  struct Place {
    BufferId buffer = 0;
    std::size_t source = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kStaging = 0;

  Place add(BufferId buffer, std::uint64_t bytes);
  const std::byte* at(const Place& place) const { return sources_[place.source].seen.data() + place.offset; }

  Device* device_ = nullptr;
  const Layout* layout_ = nullptr;
  std::span<const WGPUBuffer> buffers_;
  std::vector<Source> sources_;
  std::vector<std::size_t> source_of_;  ///< per buffer
  std::vector<Output> outputs_;
  std::vector<Place> places_;  ///< of outputs_, and then of the fault
  bool has_fault_ = false;
  std::uint64_t bytes_in_use_ = 0;
  const std::byte* fault_ = nullptr;
};

}  // namespace nibble::gpu
