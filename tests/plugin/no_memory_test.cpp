// ExecuTorch's door: each allocation of Nibble fails once in init, execute and destroy.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/runtime.h>

#include "device/gpu_fixture.hpp"
#include "device/sweep.hpp"

namespace nibble::test {
namespace {

namespace et = ::executorch::runtime;
namespace aten = ::executorch::aten;

Status status_of(et::Error error, std::string_view what) {
  if (error == et::Error::Ok) return {};
  const auto code = error == et::Error::MemoryAllocationFailed ? ErrorCode::out_of_memory : ErrorCode::internal;
  return fail(code, "{}: ExecuTorch's error {}", what, static_cast<int>(error));
}

/// A tensor of rank 2 in the caller's memory.
struct Matrix {
  Matrix(aten::ScalarType type, std::int32_t rows, std::int32_t columns, void* data)
      : sizes{rows, columns}, strides{columns, 1}, impl(type, 2, sizes.data(), data, order.data(), strides.data()) {}
  std::array<std::int32_t, 2> sizes;
  std::array<std::int32_t, 2> strides;
  std::array<std::uint8_t, 2> order = {0, 1};
  aten::TensorImpl impl;
  et::EValue value{aten::Tensor(&impl)};
};

TEST_F(GpuTest, the_plug_in_without_memory_gives_errors) {
  et::runtime_init();
  auto* const backend = et::get_backend_class("VulkanBackend");
  ASSERT_NE(backend, nullptr);
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {4});
  b.inputs({ids});
  b.outputs({add_embedding(b, ids, {4})});
  const Bytes blob = b.finish();
  std::vector<std::int64_t> taken = {3, 49, 0, 7};
  std::vector<float> rows(taken.size() * kWidth);
  std::array<std::int32_t, 1> size = {4};
  std::array<std::int32_t, 1> stride = {1};
  std::array<std::uint8_t, 1> order = {0};
  aten::TensorImpl in(aten::ScalarType::Long, 1, size.data(), taken.data(), order.data(), stride.data());
  et::EValue input{aten::Tensor(&in)};
  Matrix output(aten::ScalarType::Float, 4, kWidth, rows.data());
  std::array<et::EValue*, 2> arguments = {&input, &output.value};
  const auto use = [&]() -> Status {
    et::BackendInitContext loading(nullptr, nullptr, "forward", nullptr);
    et::FreeableBuffer processed(blob.data(), blob.size(), nullptr);
    const auto handle = backend->init(loading, &processed, {});
    TRY(status_of(handle.ok() ? et::Error::Ok : handle.error(), "init"));
    std::ranges::fill(rows, 0.0F);
    et::BackendExecutionContext running;
    const auto error = backend->execute(running, *handle, {arguments.data(), arguments.size()});
    backend->destroy(*handle);
    TRY(status_of(error, "execute"));
    return are_rows(rows, taken) ? Status{} : fail(ErrorCode::internal, "other rows came out");
  };
  sweep(use, 400);
}

}  // namespace
}  // namespace nibble::test
