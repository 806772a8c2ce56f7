// The 4-bit linear at the shapes of Llama 3.2 1B: its kernel beside a copy of the weights and beside the first rung.
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

constexpr std::uint32_t kGroup = 32;
constexpr std::uint32_t kMostRows = 128;

struct Shape2 {
  std::uint32_t depth;
  std::uint32_t columns;
};

void write_program(const std::string& path, Shape2 shape) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> nibbles(std::size_t{shape.columns} * shape.depth / 8);
  for (auto& word : nibbles) word = random();
  std::vector<float> scales(std::size_t{shape.columns} * shape.depth / kGroup);
  for (auto& scale : scales) scale = static_cast<float>(random() % 1000 + 1) * 1e-5F;
  test::BlobBuilder b;
  const int weight = b.named_constant(DType::u8, {shape.columns, shape.depth / 2}, "weight", test::bytes_of(nibbles));
  const int scale =
      b.named_constant(DType::f32, {shape.depth / kGroup, shape.columns}, "scales", test::bytes_of(scales));
  const int in = b.tensor(DType::f32, {kMostRows, shape.depth});
  const int out = b.tensor(DType::f32, {kMostRows, shape.columns});
  b.op("et_vk.linear_q4gsw.default", {in, weight, scale, b.integer(kGroup), b.null(), out});
  b.inputs({in});
  b.outputs({out});
  const auto pte = test::make_pte(b, {.dynamic = true});
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(pte.data()), static_cast<std::streamsize>(pte.size()));
  if (!file.good()) die("cannot write " + path);
}

void measure(Report& report, const Model& model, Shape2 shape, std::uint32_t rows, int rounds) {
  auto session = must(model.session());
  std::mt19937 random(2);
  std::vector<float> x(std::size_t{rows} * shape.depth);
  for (auto& v : x) v = static_cast<float>(random() % 2001) * 1e-3F - 1;
  std::vector<float> out(std::size_t{rows} * shape.columns);
  const HostTensor in{.dtype = DType::f32, .shape = {rows, shape.depth}, .data = x.data()};
  must(session.set_inputs({&in, 1}));
  const HostOutput to{.dtype = DType::f32, .data = out.data(), .bytes = out.size() * 4};
  must(session.execute({&to, 1}));

  auto& executor = *Internals::of(session)->executor;
  auto& device = *executor.model().device();
  const Dispatch& d = *executor.stepper().dispatches().front();
  const auto buffers = buffers_of(executor, d);
  RawDispatch ours(executor, d);

  const bool is_tile = rows > 8;
  const std::array<std::uint32_t, 4> rung_params{rows, shape.depth, shape.columns, kGroup};
  std::array<std::uint32_t, 3> rung_grid{shape.columns / 2, rows, 1};
  if (is_tile) rung_grid = {shape.columns / 64, (rows + 63) / 64, 1};
  const auto& rung_shader = is_tile ? wgsl::linear_tile_first_rung : wgsl::linear_row_first_rung;
  RawDispatch rung(
      device,
      {"first rung", std::string(rung_shader.body), {Access::read, Access::read, Access::read, Access::read_write}, {}},
      buffers, rung_grid, std::as_bytes(std::span(rung_params)));

  const std::uint32_t quads = shape.columns * (shape.depth / 32);
  const std::array<std::uint32_t, 4> copy_params{quads, 0, 0, 0};
  const auto copied = must(
      device.make_buffer(std::uint64_t{quads} * 16, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "the copy"));
  RawDispatch copy(device, {"copy", std::string(wgsl::copy_vec4.body), {Access::read, Access::read_write}, {}},
                   {buffers[1], copied.get()}, {(quads + 63) / 64, 1, 1}, std::as_bytes(std::span(copy_params)));

  // A first rung that computes something else would be no reference.
  std::vector<float> other(out.size());
  rung.run_and_read(3, other.size() * 4, reinterpret_cast<std::byte*>(other.data()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!(std::abs(out[i] - other[i]) <= 1e-3F)) die("the kernel and the first rung disagree");
  }

  const auto t = alternate({[&] { ours.run(); }, [&] { copy.run(); }, [&] { rung.run(); }}, rounds, 1);
  const auto name = fmt::format("linear {} x {}, {} rows", shape.depth, shape.columns, rows);
  report.add(name + ", against a copy of the weights", t[0] * 1e3, t[1] * 1e3, "ms", "");
  report.add(name + ", against the first rung", t[0] * 1e3, t[2] * 1e3, "ms",
             rows == 1           ? "<= 0.333"
             : rows == kMostRows ? "<= 0.2"
                                 : "");
}

int run(int argc, char** argv) {
  CLI::App app{"Measures the 4-bit linear against references in the same run."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 7};
  options.add_to(app);
  CLI11_PARSE(app, argc, argv);

  const auto device = must(Device::open(options.device));
  const auto path = (std::filesystem::temp_directory_path() / fmt::format("nibble-bench-{}.pte", ::getpid())).string();
  Report report(device.info().name);
  for (const Shape2 shape : {Shape2{2048, 2048}, Shape2{2048, 512}, Shape2{2048, 8192}, Shape2{8192, 2048}}) {
    write_program(path, shape);
    const auto model = must(Model::load(device, path, with_whole_dispatches()));
    for (const std::uint32_t rows : {1U, 8U, kMostRows}) {
      measure(report, model, shape, rows, rows == kMostRows ? std::max(1, options.rounds / 3) : options.rounds);
    }
  }
  std::filesystem::remove(path);
  report.finish(options.json);
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
