// A program's weights and pipelines on one device, shared by all its sessions.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/uploader.hpp"
#include "plan/live_rows.hpp"
#include "plan/stepper.hpp"

namespace nibble::gpu {

/// Buffers of a layout, by BufferId. `raw` is null for buffers that are not made here.
struct BufferSet {
  struct GiveBack {
    void operator()(Device* device) const noexcept;
  };
  std::unique_ptr<Device, GiveBack> memory;  ///< when the buffers are gone, so is their memory
  std::vector<Buffer> owned;
  std::vector<WGPUBuffer> raw;

  /// Makes the buffers whose role `wanted` accepts.
  static Result<BufferSet> make(Device& device, const Layout& layout, bool (*wanted)(BufferRole));
};

class ModelResources {
 public:
  static Result<std::shared_ptr<const ModelResources>> make(std::shared_ptr<Device> device,
                                                            std::shared_ptr<const Plan> plan, ConstantSource& source,
                                                            const Progress& progress);
  /// For a tuner. A kernel that does not compile is an error of the calls alone that dispatch it: see check().
  static Result<std::shared_ptr<const ModelResources>> make_of_what_compiles(std::shared_ptr<Device> device,
                                                                             std::shared_ptr<const Plan> plan,
                                                                             ConstantSource& source);

  const std::shared_ptr<Device>& device() const { return device_; }
  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  std::span<const WGPUBuffer> constants() const { return constants_.raw; }
  std::span<const std::shared_ptr<const Pipeline>> pipelines() const { return pipelines_; }
  /// The error of the first of these dispatches whose kernel did not compile.
  Status check(std::span<const Dispatch* const> dispatches) const;
  /// Per state: see counts_by_rows().
  std::span<const std::uint8_t> by_rows() const { return by_rows_; }

 private:
  ModelResources(std::shared_ptr<Device> device, std::shared_ptr<const Plan> plan)
      : device_(std::move(device)), plan_(std::move(plan)), by_rows_(counts_by_rows(*plan_)) {}

  Status compile(bool may_fail);
  Status fill(ConstantSource& source, const Progress& progress);
  /// Runs what is computed from constants, once. `buffers` holds those that only this needs, too.
  Status prepare(std::span<const Dispatch> dispatches, std::span<const WGPUBuffer> buffers);

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Plan> plan_;
  std::vector<std::uint8_t> by_rows_;
  BufferSet constants_;
  std::vector<std::shared_ptr<const Pipeline>> pipelines_;
  std::map<PipelineId, Error> failed_;  ///< why these are null
};

}  // namespace nibble::gpu
