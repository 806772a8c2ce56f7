#include "gpu/call_reads.hpp"

#include <algorithm>

namespace nibble::gpu {

Status CallReads::make(Device& device, const Layout& layout, std::span<const WGPUBuffer> buffers) {
  device_ = &device;
  layout_ = &layout;
  buffers_ = buffers;
  source_of_.assign(layout.buffers.size(), kStaging);
  sources_.resize(1);
  if (layout.staging_bytes != 0) TRY(sources_[kStaging].readback.make(device, layout.staging_bytes));
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    if (layout.buffers[i].mapped != HostUse::read) continue;
    source_of_[i] = sources_.size();
    sources_.emplace_back().readback.use(buffers[i], Mapping::Mode::read);
  }
  outputs_.reserve(layout.outputs.size());
  places_.reserve(layout.outputs.size() + 1);
  return {};
}

void CallReads::clear() {
  for (auto& source : sources_) source.bytes = 0;
  outputs_.clear();
  places_.clear();
  has_fault_ = false;
  bytes_in_use_ = 0;
  fault_ = nullptr;
}

CallReads::Place CallReads::add(BufferId buffer, std::uint64_t bytes) {
  const auto index = source_of_[buffer];
  auto& source = sources_[index];
  Place place{buffer, index, 0, Size(bytes).align_up(4).unchecked()};
  bytes_in_use_ += place.bytes;
  // Buffers are multiples of 16 bytes. What shares a mapped one has the same beginning.
  const auto room = Size(bytes).align_up(16).unchecked();
  if (index == kStaging) place.offset = source.bytes;
  source.bytes = std::max(source.bytes, place.offset + room);
  return place;
}

void CallReads::add_output(std::size_t output, std::uint64_t count) {
  const auto& desc = layout_->outputs[output];
  outputs_.push_back({output, count, nullptr});
  places_.push_back(add(desc.buffer, count * size_of(desc.dtype)));
}

void CallReads::add_fault() {
  places_.push_back(add(layout_->fault_buffer, kFaultWords * 4));
  has_fault_ = true;
}

void CallReads::encode(WGPUCommandEncoder encoder) const {
  for (const auto& place : places_) {
    if (place.source != kStaging) continue;
    device_->call().CommandEncoderCopyBufferToBuffer(encoder, buffers_[place.buffer], 0,
                                                     sources_[kStaging].readback.buffer(), place.offset, place.bytes);
  }
}

void CallReads::request() {
  for (auto& source : sources_) {
    if (source.bytes != 0) source.readback.request(*device_, source.bytes);
  }
}

Status CallReads::wait(Submission submission) {
  device_->wait(submission);
  for (auto& source : sources_) {
    if (source.bytes == 0) continue;
    auto seen = source.readback.take(*device_);
    if (!seen) {
      release();
      return std::unexpected(std::move(seen).error());
    }
    source.seen = *seen;
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i].data = at(places_[i]);
  if (has_fault_) fault_ = at(places_.back());
  return {};
}

void CallReads::release() {
  for (auto& source : sources_) {
    if (source.readback.buffer() != nullptr) source.readback.release(*device_);
  }
}

}  // namespace nibble::gpu
