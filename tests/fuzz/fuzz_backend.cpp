// The door that ExecuTorch knocks at, with its own types and a device behind it: init, execute and destroy, with blobs
// and tensors of all kinds.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "nibble/nibble.hpp"
#include "plan_and_step.hpp"
#include "structure.hpp"

namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::DimOrderType;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

/// What a program may take here. ExecuTorch has no options for it, and each call is to be quick.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20U;
constexpr std::size_t kMostNodes = 64;

et::BackendInterface* backend = nullptr;

/// A key is the number of bytes that it stands for.
class Named final : public et::NamedDataMap {
 public:
  Named() : bytes_(kMostBytes) { std::iota(bytes_.begin(), bytes_.end(), std::uint8_t{0}); }

  et::Result<et::FreeableBuffer> get_data(std::string_view key) const override {
    const auto size = nibble::test::size_in_key(key);
    if (!size || *size > bytes_.size()) return et::Error::NotFound;
    return et::FreeableBuffer(bytes_.data(), *size, nullptr);
  }
  et::Result<const et::TensorLayout> get_tensor_layout(std::string_view) const override {
    return et::Error::NotImplemented;
  }
  et::Error load_data_into(std::string_view, void*, std::size_t) const override { return et::Error::NotImplemented; }
  et::Result<std::uint32_t> get_num_keys() const override { return 0U; }
  et::Result<const char*> get_key(std::uint32_t) const override { return et::Error::NotFound; }

 private:
  std::vector<std::uint8_t> bytes_;
};

bool is_small(const nibble::Graph& graph) {
  nibble::Size bytes = 0;
  for (const auto& value : graph.values) {
    const auto* tensor = std::get_if<nibble::TensorValue>(&value);
    if (tensor != nullptr) bytes = bytes + nibble::Size::bytes(tensor->shape, tensor->dtype) + 16;
  }
  return bytes.fits(kMostBytes) && graph.nodes.size() <= kMostNodes;
}

/// One argument, with memory of its own that is just as large as it says.
class Argument {
 public:
  Argument(const nibble::Graph& graph, nibble::ValueId id, std::minstd_rand& random, bool is_odd) {
    const auto one_in = [&](std::uint32_t count) { return random() % count == 0; };
    const auto* tensor = graph.tensor(id);
    if (tensor == nullptr || (is_odd && one_in(16))) {
      value_ = one_in(8) && is_odd ? et::EValue(0.5) : et::EValue(static_cast<std::int64_t>(random() % 5) - 1);
      return;
    }
    for (auto size : tensor->shape) sizes_.push_back(static_cast<SizesType>(std::min<std::int64_t>(size, 1 << 20)));
    if (is_odd && one_in(8)) sizes_.push_back(1);
    if (is_odd && one_in(8) && !sizes_.empty()) sizes_.pop_back();
    for (auto& size : sizes_) {
      if (one_in(4)) size = static_cast<SizesType>(random() % (static_cast<std::uint32_t>(size) + (is_odd ? 3 : 1)));
    }
    order_.resize(sizes_.size());
    std::iota(order_.begin(), order_.end(), DimOrderType{0});
    if (is_odd && one_in(8)) std::ranges::reverse(order_);
    strides_.resize(sizes_.size());
    StridesType stride = 1;
    for (auto dim = order_.rbegin(); dim != order_.rend(); ++dim) {
      strides_[*dim] = stride;
      stride *= std::max<StridesType>(sizes_[*dim], 1);
    }
    const auto type = is_odd && one_in(8) ? kTypes[random() % kTypes.size()] : type_of(tensor->staging, random);
    const auto dynamism = static_cast<et::TensorShapeDynamism>(is_odd ? random() % 3 : 1);
    impl_.emplace(type, static_cast<ssize_t>(sizes_.size()), sizes_.data(), nullptr, order_.data(), strides_.data(),
                  dynamism);
    // Uninitialized memory would be no bug, but other numbers each time.
    if (impl_->nbytes() > 8 * kMostBytes) return;
    memory_ = std::make_unique<std::uint8_t[]>(impl_->nbytes());
    for (std::size_t i = 0; i < impl_->nbytes(); i += 4) memory_[i] = static_cast<std::uint8_t>(random() % 4);
    if (!is_odd || !one_in(16)) impl_->set_data(memory_.get());
    value_ = et::EValue(Tensor(&*impl_));
  }

  et::EValue* value() { return &value_; }

 private:
  static constexpr std::array kTypes = {ScalarType::Bool,   ScalarType::Byte,    ScalarType::Char, ScalarType::Short,
                                        ScalarType::Int,    ScalarType::Long,    ScalarType::Half, ScalarType::Float,
                                        ScalarType::Double, ScalarType::BFloat16};

  static ScalarType type_of(nibble::DType dtype, std::minstd_rand& random) {
    switch (dtype) {
      case nibble::DType::boolean: return ScalarType::Bool;
      case nibble::DType::u8: return ScalarType::Byte;
      case nibble::DType::i8: return ScalarType::Char;
      case nibble::DType::i32: return random() % 2 == 0 ? ScalarType::Int : ScalarType::Long;
      case nibble::DType::f16: return ScalarType::Half;
      case nibble::DType::f64: return ScalarType::Double;
      case nibble::DType::i64: return ScalarType::Long;
      default: return ScalarType::Float;
    }
  }

  std::vector<SizesType> sizes_;
  std::vector<DimOrderType> order_;
  std::vector<StridesType> strides_;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::optional<TensorImpl> impl_;
  et::EValue value_;
};

void call(et::DelegateHandle* handle, const nibble::Graph& graph, std::minstd_rand& random, bool is_odd) {
  std::vector<std::unique_ptr<Argument>> arguments;
  std::vector<et::EValue*> values;
  for (const auto& ends : {graph.inputs, graph.outputs}) {
    for (auto id : ends) {
      arguments.push_back(std::make_unique<Argument>(graph, id, random, is_odd));
      values.push_back(arguments.back()->value());
    }
  }
  if (is_odd && random() % 8 == 0 && !values.empty()) values.pop_back();
  et::BackendExecutionContext context;
  const auto error = backend->execute(context, handle, {values.data(), values.size()});
  if (error != et::Error::Internal) return;
  std::fprintf(stderr, "fuzz_backend: an internal error\n");
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  et::runtime_init();
  backend = et::get_backend_class("VulkanBackend");
  // A device that stays open: opening one takes longer than all the rest.
  static const auto kDevice = nibble::Device::open();
  if (backend != nullptr && backend->is_available() && kDevice) return 0;
  std::fputs("fuzz_backend: the backend is not available\n", stderr);
  std::exit(2);
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  return nibble::test::mutate(data, size, most, seed, nibble::test::changed_blob);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Named kNamed;
  const auto graph = nibble::read_blob(std::as_bytes(std::span(data, size)), nibble::test::size_in_key);
  if (graph && !is_small(*graph)) return 0;
  std::minstd_rand random(nibble::test::seed_of({data, size}));
  et::BackendInitContext context(nullptr, nullptr, "forward", random() % 16 == 0 ? nullptr : &kNamed);
  et::FreeableBuffer blob(data, size, nullptr);
  const auto handle = backend->init(context, &blob, {});
  if (!handle.ok()) {
    // What cannot be read is for fuzz_blob: here it would only fill the corpus.
    if (handle.error() != et::Error::Internal) return graph ? 0 : -1;
    std::fprintf(stderr, "fuzz_backend: an internal error\n");
    std::abort();
  }
  if (graph) {
    for (int i = 0; i < 3; ++i) call(handle.get(), *graph, random, i == 1);
  }
  backend->destroy(handle.get());
  return 0;
}
