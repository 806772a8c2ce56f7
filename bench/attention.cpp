// Attention at the shape of Llama 3.2 1B (32 heads in groups of 4, 64 elements each), over caches of 128 and 2048
// positions: a decode step and a prompt of 128, against three plain kernels and a copy of the keys and values.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "api/session.hpp"
#include "bench/harness.hpp"
#include "nibble/nibble.hpp"
#include "support/pte_builder.hpp"
#include "wgsl.hpp"

namespace nibble::bench {
namespace {

constexpr std::uint32_t kHeads = 32;
constexpr std::uint32_t kKeyHeads = 8;
constexpr std::uint32_t kSize = 64;
constexpr std::uint32_t kMostKeys = 2048;
constexpr std::uint32_t kMostRows = 128;

std::vector<float> random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (auto& v : values) v = static_cast<float>(random() % 2001) * 1e-3F - 1;
  return values;
}

/// Rows of q, k and v and a start position, through one attention with caches.
void write_program(const std::string& path) {
  test::BlobBuilder b;
  const auto cache = random_floats(std::size_t{kMostKeys} * kKeyHeads * kSize, 1);
  const int keys = b.constant(DType::f32, {1, kMostKeys, kKeyHeads, kSize}, cache, {.mem_obj = 1});
  const int values = b.constant(DType::f32, {1, kMostKeys, kKeyHeads, kSize}, cache, {.mem_obj = 2});
  const int position = b.tensor(DType::i32, {1});
  const int q = b.tensor(DType::f32, {1, kMostRows, kHeads, kSize});
  const int k = b.tensor(DType::f32, {1, kMostRows, kKeyHeads, kSize});
  const int v = b.tensor(DType::f32, {1, kMostRows, kKeyHeads, kSize});
  const int out = b.tensor(DType::f32, {1, kMostRows, kHeads, kSize});
  const int start = b.symint();
  b.op("et_vk.select_as_symint.default", {position, b.integer(0), b.integer(0), start});
  b.op("sdpa_with_kv_cache.default",
       {q, k, v, keys, values, start, b.integer(1), b.null(), b.integer(0), b.boolean(true), b.null(), out});
  b.inputs({position, q, k, v});
  b.outputs({out});
  const auto pte = test::make_pte(b, {.dynamic = true});
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(pte.data()), static_cast<std::streamsize>(pte.size()));
  if (!file.good()) die("cannot write " + path);
}

std::array<std::uint32_t, 3> grid(std::uint64_t threads) {
  const std::uint64_t groups = (threads + 63) / 64;
  const std::uint64_t rows = (groups + 65534) / 65535;
  return {static_cast<std::uint32_t>((groups + rows - 1) / rows), static_cast<std::uint32_t>(rows), 1};
}

void attention(Report& report, const Model& model, std::uint32_t rows, std::uint32_t keys, int rounds) {
  auto session = must(model.session());
  const std::vector<std::int64_t> position{keys - rows};
  const auto q = random_floats(std::size_t{rows} * kHeads * kSize, 2);
  const auto kv = random_floats(std::size_t{rows} * kKeyHeads * kSize, 3);
  std::vector<float> result(q.size());
  const std::array<HostTensor, 4> inputs{
      HostTensor{.dtype = DType::i64, .shape = {1}, .data = position.data()},
      HostTensor{.dtype = DType::f32, .shape = {1, rows, kHeads, kSize}, .data = q.data()},
      HostTensor{.dtype = DType::f32, .shape = {1, rows, kKeyHeads, kSize}, .data = kv.data()},
      HostTensor{.dtype = DType::f32, .shape = {1, rows, kKeyHeads, kSize}, .data = kv.data()}};
  must(session.set_inputs(inputs));
  const HostOutput to{.dtype = DType::f32, .data = result.data(), .bytes = result.size() * 4};
  must(session.execute({&to, 1}));

  // Ours: all dispatches but the first, which writes the caches.
  auto& executor = *Internals::of(session)->executor;
  auto& device = *executor.model().device();
  const auto dispatches = executor.stepper().dispatches().subspan(1);
  std::deque<RawDispatch> ours;
  for (const auto* d : dispatches) ours.emplace_back(executor, *d);
  const auto* first = dispatches.front();
  const WGPUBuffer query = executor.buffer(first->bindings[0]);
  const WGPUBuffer key = executor.buffer(first->bindings[1]);
  const WGPUBuffer value = executor.buffer(first->bindings[2]);

  const struct {
    std::uint32_t rows, keys, first, heads, group, quads;
    float scale;
  } params{rows, keys, keys - rows, kHeads, kHeads / kKeyHeads, kSize / 4, 0.125F};
  const auto bytes = std::as_bytes(std::span(&params, 1));
  constexpr auto kUsage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;
  const auto scores = must(device.make_buffer(std::uint64_t{rows} * kHeads * keys * 4, kUsage, "the scores"));
  const auto plain = must(device.make_buffer(result.size() * 4, kUsage, "the first rung's result"));
  std::deque<RawDispatch> rung;
  rung.emplace_back(
      device,
      PipelineDesc{
          "scores", std::string(wgsl::attention_scores.body), {Access::read, Access::read, Access::read_write}, {}},
      std::vector<WGPUBuffer>{query, key, scores.get()}, grid(std::uint64_t{rows} * kHeads * keys), bytes);
  rung.emplace_back(device,
                    PipelineDesc{"softmax", std::string(wgsl::attention_softmax.body), {Access::read_write}, {}},
                    std::vector<WGPUBuffer>{scores.get()}, std::array<std::uint32_t, 3>{rows * kHeads, 1, 1}, bytes);
  rung.emplace_back(
      device,
      PipelineDesc{
          "product", std::string(wgsl::attention_product.body), {Access::read, Access::read, Access::read_write}, {}},
      std::vector<WGPUBuffer>{scores.get(), value, plain.get()}, grid(std::uint64_t{rows} * kHeads * kSize / 4), bytes);

  const std::uint32_t quads = keys * kKeyHeads * kSize / 4;
  const std::array<std::uint32_t, 4> copy_params{quads, 0, 0, 0};
  const auto copied = must(device.make_buffer(std::uint64_t{quads} * 16, kUsage, "the copy"));
  std::deque<RawDispatch> copies;
  for (const WGPUBuffer source : {key, value}) {
    copies.emplace_back(
        device, PipelineDesc{"copy", std::string(wgsl::copy_vec4.body), {Access::read, Access::read_write}, {}},
        std::vector<WGPUBuffer>{source, copied.get()}, grid(quads), std::as_bytes(std::span(copy_params)));
  }

  std::vector<float> wanted(result.size());
  run_in_order(device, rung);
  rung.back().run_and_read(2, wanted.size() * 4, reinterpret_cast<std::byte*>(wanted.data()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!(std::abs(wanted[i] - result[i]) < 1e-4F)) die(fmt::format("results differ at {}", i));
  }

  const bool is_long = rows * keys > 100000;  // seconds per round
  const auto t = alternate(
      {[&] { run_in_order(device, ours); }, [&] { run_in_order(device, rung); }, [&] { run_in_order(device, copies); }},
      is_long ? 3 : rounds, is_long ? 1 : 3);
  const auto what = fmt::format("{} row{}, {} keys", rows, rows == 1 ? "" : "s", keys);
  report.add(what + ": against scores, softmax, product", t[0] * 1e3, t[1] * 1e3, "ms", "<= 0.5");
  report.add(what + ": against a copy of keys and values", t[0] * 1e3, t[2] * 1e3, "ms", "");
}

int run(int argc, char** argv) {
  CLI::App app{"Measures attention against references in the same run."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 15};
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);

  const auto device = must(Device::open(options.device));
  const auto path = (std::filesystem::temp_directory_path() / fmt::format("nibble-bench-{}.pte", ::getpid())).string();
  write_program(path);
  Report report(device.info().name);
  {
    const auto model = must(Model::load(device, path, with_whole_dispatches()));
    for (std::uint32_t keys : {128U, 2048U}) {
      for (std::uint32_t rows : {1U, 128U}) attention(report, model, rows, keys, options.rounds);
    }
  }
  std::filesystem::remove(path);
  report.finish(options.json);
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
