#include "gpu/node_bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan/alone.hpp"
#include "plan/batches.hpp"

namespace nibble::gpu {
namespace {

constexpr float kTolerance = 2e-3F;

/// Batches are shorter than those of a call, so that a variant that is far too slow is given up soon.
constexpr std::uint64_t kShorter = 8;

/// Numbers that look like noise; the same every time.
class Noise {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33U);  // 31 bits
  }
  float real() { return static_cast<float>(next()) / static_cast<float>(1U << 30U) - 1; }

 private:
  std::uint64_t state_ = 1;
};

template <class T>
void fill_with(std::vector<std::byte>& bytes, const auto& make) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    const T value = make();
    std::memcpy(bytes.data() + i, &value, sizeof(T));
  }
}

template <class T>
std::vector<T> elements(const std::vector<std::byte>& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return all;
}

bool are_near(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  std::size_t count = 0;
  for (const float x : a) {
    if (!std::isfinite(x)) continue;
    squares += static_cast<double>(x) * x;
    ++count;
  }
  const auto usual = count == 0 ? 0.0F : static_cast<float>(std::sqrt(squares / static_cast<double>(count)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    // Infinity is within a part of infinity, too.
    if (!std::isfinite(a[i]) || !(std::abs(a[i] - b[i]) <= kTolerance * std::max(std::abs(a[i]), usual))) return false;
  }
  return true;
}

template <class T>
bool are_within_one(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return std::ranges::equal(elements<T>(a), elements<T>(b),
                            [](std::int64_t x, std::int64_t y) { return std::abs(x - y) <= 1; });
}

bool agree(const NodeResults::Output& a, const NodeResults::Output& b) {
  if (a.dtype != b.dtype || a.bytes.size() != b.bytes.size()) return false;
  switch (a.dtype) {
    case DType::f32: return are_near(elements<float>(a.bytes), elements<float>(b.bytes));
    case DType::i32: return are_within_one<std::int32_t>(a.bytes, b.bytes);
    case DType::u8: return are_within_one<std::uint8_t>(a.bytes, b.bytes);
    case DType::i8: return are_within_one<std::int8_t>(a.bytes, b.bytes);
    default: return a.bytes == b.bytes;
  }
}

}  // namespace

bool agree(const NodeResults& a, const NodeResults& b) {
  return std::ranges::equal(a.outputs, b.outputs,
                            [](const NodeResults::Output& x, const NodeResults::Output& y) { return agree(x, y); });
}

Result<std::unique_ptr<NodeBench>> NodeBench::make(const std::shared_ptr<Device>& device, const Plan& plan,
                                                   std::uint32_t node, Options options, Registry registry,
                                                   ConstantSource& source) {
  std::unique_ptr<NodeBench> self(new NodeBench(source));
  if (options.max_batch_work == 0) options.max_batch_work = default_batch_work(plan.profile());
  options.max_batch_work = std::max<std::uint64_t>(1, options.max_batch_work / kShorter);
  Graph graph = node_alone(plan, node);
  MethodSignature signature = signature_of(graph);
  TRY_ASSIGN(self->plan_,
             Plan::lower(std::move(graph), plan.profile(), plan.preferences().with_all(), options, registry));
  self->boundary_ = std::make_shared<const Boundary>(std::move(signature), self->plan_);
  TRY_ASSIGN(auto model, ModelResources::make(device, self->plan_, source, nullptr));
  TRY_ASSIGN(self->executor_, Executor::make(std::move(model), self->boundary_, source));
  self->inputs_.resize(self->plan_->graph().inputs.size());
  return self;
}

void NodeBench::fill(const TuningCases::Call& call) {
  given_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    fill(i, call);
    given_.push_back(inputs_[i].tensor);
  }
}

void NodeBench::fill(std::size_t input, const TuningCases::Call& call) {
  const auto& desc = plan_->layout().inputs[input];
  auto& [tensor, bytes] = inputs_[input];
  tensor = {};
  if (desc.is_symint) {
    tensor.is_int = true;
    tensor.integer = call.live.ints[desc.value];
    return;
  }
  tensor.dtype = desc.staging;
  tensor.shape = call.live.shapes[desc.value];
  bytes.assign(std::max<std::size_t>(1, static_cast<std::size_t>(tensor.shape.numel()) * size_of(desc.staging)), {});
  tensor.data = bytes.data();
  Noise noise;
  // Of other integers only zero is surely an index of something.
  const auto rows = desc.checks.empty() ? 1 : static_cast<std::uint32_t>(boundary_->range(input).highest + 1);
  switch (desc.staging) {
    case DType::f32: fill_with<float>(bytes, [&] { return noise.real(); }); break;
    case DType::boolean: fill_with<std::uint8_t>(bytes, [&] { return noise.next() % 2; }); break;
    case DType::i32:
      fill_with<std::int32_t>(bytes, [&] { return desc.host_read ? call.integer : noise.next() % std::max(1U, rows); });
      break;
    default: fill_with<std::uint8_t>(bytes, [&] { return noise.next(); }); break;
  }
}

Status NodeBench::reset() {
  if (plan_->layout().states.empty()) return {};
  is_incomplete_ = true;
  TRY(executor_->reset(source_));
  is_incomplete_ = false;
  return {};
}

Status NodeBench::select(const Choice* choice, std::size_t variant) {
  if (is_incomplete_) TRY(reset());
  executor_->force(choice, variant);
  return executor_->set_inputs(given_);
}

Result<NodeResults> NodeBench::run() {
  TRY(reset());
  NodeResults results;
  std::vector<HostOutput> outputs;
  const auto& descs = plan_->layout().outputs;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    auto& [dtype, bytes] = results.outputs.emplace_back();
    HostOutput to;
    if (!descs[i].is_symint) {
      to.dtype = dtype = descs[i].staging;
      bytes.resize(static_cast<std::size_t>(executor_->stepper().output_shape(i).numel()) * size_of(dtype));
      to.data = bytes.data();
      to.bytes = bytes.size();
    }
    outputs.push_back(to);
  }
  TRY(executor_->submit(outputs));
  TRY(executor_->wait(outputs));
  return results;
}

}  // namespace nibble::gpu
