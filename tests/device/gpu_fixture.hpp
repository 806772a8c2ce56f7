// What the device tests share: the adapter that the environment chooses, and sessions from blobs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/load_blob.hpp"
#include "api/session.hpp"
#include "support/blob_builder.hpp"
#include "support/expect.hpp"

namespace nibble::test {

using Floats = std::vector<float>;

/// Inline constants of a blob.
class BlobConstants final : public ConstantSource {
 public:
  BlobConstants(std::span<const std::byte> blob, std::span<const Constant> constants)
      : blob_(blob), constants_(constants.begin(), constants.end()) {}
  Status read(std::uint32_t i, std::uint64_t offset, std::span<std::byte> to) override {
    return copy_constant(i, blob_.subspan(constants_[i].offset, constants_[i].length), offset, to);
  }

 private:
  std::span<const std::byte> blob_;
  std::vector<Constant> constants_;
};

class GpuTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(succeeds(opened_)); }

  Result<Loaded> load(const BlobBuilder& builder, const LoadOptions& options = {}) {
    const Bytes blob = builder.finish();
    return load_blob(
        device, blob, [](std::string_view key) -> Result<std::uint64_t> { return fail(ErrorCode::io, "no {}", key); },
        [&](std::span<const Constant> constants) { return std::make_unique<BlobConstants>(blob, constants); }, options);
  }

  Result<Device> opened_ = Device::open();
  Device device = opened_.value();
};

/// With one program at a time.
class LoadedTest : public GpuTest {
 protected:
  Session& session(const BlobBuilder& builder, const LoadOptions& options = {}) {
    auto result = load(builder, options);
    EXPECT_TRUE(succeeds(result));
    loaded = std::move(*result);
    return loaded->session;
  }

  std::optional<Loaded> loaded;
};

/// Twice: outputs are mapped, where the adapter lets kernels write what can be mapped, and copied for the host.
class BothReadsTest : public LoadedTest, public testing::WithParamInterface<bool> {
 protected:
  static LoadOptions staged_by_param(LoadOptions options) {
    options.staged = GetParam();
    return options;
  }
  Result<Loaded> load(const BlobBuilder& builder, const LoadOptions& options = {}) {
    return LoadedTest::load(builder, staged_by_param(options));
  }
  Session& session(const BlobBuilder& builder, const LoadOptions& options = {}) {
    return LoadedTest::session(builder, staged_by_param(options));
  }
};

inline std::string name_of_reads(const testing::TestParamInfo<bool>& info) { return info.param ? "staged" : "mapped"; }

/// Of a graph that is called as it is.
inline std::shared_ptr<const Boundary> boundary_of(const Graph& graph, std::shared_ptr<const Plan> plan) {
  return std::make_shared<const Boundary>(signature_of(graph), std::move(plan));
}

template <class T>
HostTensor tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  return {dtype, shape, values.data(), false, 0};
}

/// Sets the inputs and runs; gives the first output as T.
template <class T>
Result<std::vector<T>> call(Session& session, std::vector<HostTensor> inputs, DType dtype) {
  TRY(session.set_inputs(inputs));
  std::vector<T> out(static_cast<std::size_t>(session.output_shape(0).numel()));
  const HostOutput output{dtype, out.data(), out.size() * sizeof(T)};
  TRY(session.execute({&output, 1}));
  return out;
}

constexpr std::int64_t kRows = 50;
constexpr std::int64_t kWidth = 32;

inline std::uint8_t table_byte(std::size_t i) { return static_cast<std::uint8_t>(i * 37 + 11); }
inline float table_scale(std::size_t i) { return 0.25F * static_cast<float>(i % 7 + 1); }

/// A 50 x 32 table in groups of 16; what the ids go through first is up to the caller.
inline int add_embedding(BlobBuilder& b, int ids, std::vector<std::uint32_t> shape) {
  std::vector<std::uint8_t> bytes(kRows * kWidth / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = table_byte(i);
  std::vector<float> scales(kRows * 2);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = table_scale(i);
  const int table = b.constant(DType::u8, {kRows, kWidth / 2}, bytes);
  const int scale = b.constant(DType::f32, {kRows, 2}, scales);
  shape.push_back(kWidth);
  const int out = b.tensor(DType::f32, std::move(shape));
  b.op("et_vk.embedding_q4gsw.default", {table, scale, b.integer(16), ids, b.boolean(true), out});
  return out;
}

/// ids of at most [2, most] -> rows of the table.
inline BlobBuilder embedding(std::uint32_t most = 100) {
  BlobBuilder b;
  const int ids = b.tensor(DType::i32, {2, most});
  const int out = add_embedding(b, ids, {2, most});
  b.inputs({ids});
  b.outputs({out});
  return b;
}

inline float embedded(std::int64_t row, std::int64_t column) {
  const auto byte = table_byte(static_cast<std::size_t>(row * kWidth / 2 + column / 2));
  const int nibble = column % 2 == 0 ? byte & 15 : byte >> 4;
  return static_cast<float>(nibble - 8) * table_scale(static_cast<std::size_t>(row * 2 + column / 16));
}

template <class Id>
testing::AssertionResult are_rows(const std::vector<float>& got, const std::vector<Id>& ids) {
  if (got.size() != ids.size() * kWidth) return testing::AssertionFailure() << got.size() << " values";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto wanted = embedded(static_cast<std::int64_t>(ids[i / kWidth]), static_cast<std::int64_t>(i % kWidth));
    if (got[i] != wanted) return testing::AssertionFailure() << "at " << i << ": " << got[i] << ", wanted " << wanted;
  }
  return testing::AssertionSuccess();
}

}  // namespace nibble::test
