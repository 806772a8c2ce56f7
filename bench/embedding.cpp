// The 4-bit embedding at the shape of Llama 3.2 1B (128256 x 2048, groups of 32): its kernel, a whole call, a load.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
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

constexpr std::uint32_t kRows = 128256;
constexpr std::uint32_t kWidth = 2048;
constexpr std::uint32_t kGroup = 32;

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void write_program(const std::string& path, std::uint32_t ids) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> nibbles(std::size_t{kRows} * kWidth / 8);
  for (auto& word : nibbles) word = random();
  std::vector<float> scales(std::size_t{kRows} * kWidth / kGroup);
  for (auto& scale : scales) scale = static_cast<float>(random() % 1000 + 1) * 1e-4F;
  test::BlobBuilder b;
  const int weight = b.named_constant(DType::u8, {kRows, kWidth / 2}, "weight", test::bytes_of(nibbles));
  const int scale = b.named_constant(DType::f32, {kRows, kWidth / kGroup}, "scales", test::bytes_of(scales));
  const int in = b.tensor(DType::i32, {ids});
  const int out = b.tensor(DType::f32, {ids, kWidth});
  b.op("et_vk.embedding_q4gsw.default", {weight, scale, b.integer(kGroup), in, b.boolean(true), out});
  b.inputs({in});
  b.outputs({out});
  const auto pte = test::make_pte(b, {.dynamic = true});
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(pte.data()), static_cast<std::streamsize>(pte.size()));
  if (!file.good()) die("cannot write " + path);
}

std::vector<std::int64_t> random_ids(std::uint32_t count) {
  std::mt19937 random(2);
  std::vector<std::int64_t> ids(count);
  for (auto& id : ids) id = random() % kRows;
  return ids;
}

struct Call {
  std::vector<std::int64_t> ids;
  std::vector<float> out;
  Session session;

  Call(const Model& model, std::uint32_t count)
      : ids(random_ids(count)), out(std::size_t{count} * kWidth), session(must(model.session())) {}
  void run() {
    const HostTensor in{.dtype = DType::i64, .shape = {static_cast<std::int64_t>(ids.size())}, .data = ids.data()};
    must(session.set_inputs({&in, 1}));
    const HostOutput to{.dtype = DType::f32, .data = out.data(), .bytes = out.size() * 4};
    must(session.execute({&to, 1}));
  }
};

// The kernel by itself: the plan's own dispatch and buffers, beside two kernels that work on the same.
void kernels(Report& report, const Model& model, std::uint32_t count, int rounds) {
  Call call(model, count);
  call.run();
  auto& executor = *Internals::of(call.session)->executor;
  auto& device = *executor.model().device();
  const Dispatch& d = *executor.stepper().dispatches().front();
  const auto buffers = buffers_of(executor, d);
  RawDispatch ours(executor, d);

  const auto grid = [](std::uint32_t threads) {
    const std::uint32_t groups = (threads + 63) / 64;
    const std::uint32_t rows = (groups + 65534) / 65535;
    return std::array<std::uint32_t, 3>{(groups + rows - 1) / rows, rows, 1};
  };
  const std::uint32_t blocks = count * kWidth / 32;
  const std::array<std::uint32_t, 4> rung_params{blocks, kWidth, kWidth / kGroup, kGroup};
  RawDispatch rung(device,
                   {"first rung",
                    std::string(wgsl::embedding_first_rung.body),
                    {Access::read, Access::read, Access::read, Access::read_write},
                    {}},
                   buffers, grid(blocks), bytes_of(rung_params));
  const std::uint32_t quads = count * kWidth / 4;
  const std::array<std::uint32_t, 4> copy_params{quads, 0, 0, 0};
  const auto source = must(device.make_buffer(std::uint64_t{quads} * 16,
                                              WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "the copy's source"));
  RawDispatch copy(device, {"copy", std::string(wgsl::copy_vec4.body), {Access::read, Access::read_write}, {}},
                   {source.get(), buffers.back()}, grid(quads), bytes_of(copy_params));

  const auto t = alternate({[&] { ours.run(); }, [&] { copy.run(); }, [&] { rung.run(); }}, rounds);
  report.add(fmt::format("{} ids: kernel against a vec4 copy of its output", count), t[0] * 1e3, t[1] * 1e3, "ms",
             count == 2048 ? "<= 0.9" : "");
  report.add(fmt::format("{} ids: kernel against the first rung", count), t[0] * 1e3, t[2] * 1e3, "ms",
             count == 2048 ? "<= 0.25" : "");
}

void whole_call(Report& report, const Model& model, const Model& staged, int rounds) {
  Call call(model, 1);
  Call copied(staged, 1);
  auto& device = *Internals::of(call.session)->executor->model().device();
  const auto result = must(device.make_buffer(
      kWidth * 4, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, "the empty result"));
  RawDispatch empty(device, {"empty", std::string(wgsl::empty.body), {Access::read_write}, {}}, {result.get()},
                    {1, 1, 1}, {});
  std::vector<std::byte> host(kWidth * 4);
  const auto t =
      alternate({[&] { call.run(); }, [&] { empty.run_and_read(0, host.size(), host.data()); }, [&] { copied.run(); }},
                rounds, 50);
  report.add("1 id: whole call against an empty dispatch with readback", t[0] * 1e3, t[1] * 1e3, "ms", "<= 1.2");
  report.add("1 id: whole call against one with copies for the host", t[0] * 1e3, t[2] * 1e3, "ms", "");
}

// What it saves to map the buffers that the kernel uses.
void mapped_call(Report& report, const Model& model, const Model& staged, int rounds) {
  Call call(model, 2048);
  Call copied(staged, 2048);
  const auto t = alternate({[&] { call.run(); }, [&] { copied.run(); }}, rounds);
  report.add("2048 ids: whole call against one with copies for the host", t[0] * 1e3, t[1] * 1e3, "ms", "<= 0.8");
}

// --- loading, in processes of their own, so that peaks are theirs ---

void load_plain(const std::string& path, const Device& device) {
  auto& gpu = *Internals::of(device)->gpu;
  std::vector<gpu::Buffer> buffers;
  std::vector<std::byte> chunk(4 << 20);
  measure_load([&] {
    const int file = ::open(path.c_str(), O_RDONLY);
    // The bytes go where Nibble puts them: buffers of at most the binding limit.
    const std::uint64_t most = gpu.profile().limits.max_storage_binding_size / chunk.size() * chunk.size();
    std::uint64_t left = std::filesystem::file_size(path) / 4 * 4;
    while (left > 0) {
      const auto bytes = std::min(left, most);
      buffers.push_back(must(gpu.make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst, "bytes")));
      for (std::uint64_t at = 0; at < bytes;) {
        const auto got = ::read(file, chunk.data(), std::min<std::uint64_t>(chunk.size(), bytes - at));
        if (got <= 0) die("cannot read " + path);
        gpu.call().QueueWriteBuffer(gpu.queue(), buffers.back().get(), at, chunk.data(), static_cast<std::size_t>(got));
        gpu.wait(gpu.submit_writes());
        at += static_cast<std::uint64_t>(got);
      }
      left -= bytes;
    }
    ::close(file);
  });
}

void loads(Report& report, const std::string& self, const std::string& path, const std::string& device, int rounds) {
  std::vector<double> ours;
  std::vector<double> plain;
  double peak = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto a = measure_in_child(self, "load", path, device);
    const auto b = measure_in_child(self, "load-plain", path, device);
    ours.push_back(a.seconds);
    plain.push_back(b.seconds);
    peak = std::max(peak, a.peak_mb);
  }
  std::ranges::sort(ours);
  std::ranges::sort(plain);
  const double mb = (double{kRows} * kWidth / 2 + double{kRows} * kWidth / kGroup * 4) / (1 << 20);
  report.add("load: peak memory above an open device, against its buffers", peak, mb, "MB",
             fmt::format("<= {:.3f} (+64 MB)", (mb + 64) / mb));
  report.add("load: time against a plain read and upload", ours[ours.size() / 2] * 1e3, plain[plain.size() / 2] * 1e3,
             "ms", "<= 1.5");
}

int run(int argc, char** argv) {
  CLI::App app{"Measures the 4-bit embedding against references in the same run."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 15};
  std::string load;
  std::string load_plain_path;
  options.add_to(app);
  app.add_option("--load", load, "Load this program, print seconds and peak")->group("");
  app.add_option("--load-plain", load_plain_path, "Read and upload this file, print seconds and peak")->group("");
  CLI11_PARSE(app, argc, argv);

  const auto device = must(Device::open(options.device));
  if (!load.empty()) {
    std::optional<Model> model;
    measure_load([&] { model = must(Model::load(device, load)); });
    return 0;
  }
  if (!load_plain_path.empty()) {
    load_plain(load_plain_path, device);
    return 0;
  }
  const auto path = (std::filesystem::temp_directory_path() / fmt::format("nibble-bench-{}.pte", ::getpid())).string();
  write_program(path, 2048);
  Report report(device.info().name);
  {
    const auto model = must(Model::load(device, path, with_whole_dispatches()));
    for (std::uint32_t count : {1U, 128U, 2048U}) kernels(report, model, count, options.rounds);
    auto with_copies = with_whole_dispatches();
    with_copies.staged = true;
    const auto staged = must(Model::load(device, path, with_copies));
    whole_call(report, model, staged, options.rounds * 20);
    mapped_call(report, model, staged, options.rounds);
  }
  loads(report, argv[0], path, options.device, std::max(3, options.rounds / 3));
  std::filesystem::remove(path);
  report.finish(options.json);
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
