// Convolutions at the shapes of ResNet and MobileNet: all dispatches of a call beside a matrix product of as many
// multiplications (or a copy of as many bytes, where filters see one channel) and beside the first rung.
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

struct Case {
  std::uint32_t size;
  std::uint32_t channels;
  std::uint32_t kernel;
  std::uint32_t stride;
  bool is_depthwise = false;

  std::uint32_t padding() const { return kernel / 2; }
  std::uint32_t groups() const { return is_depthwise ? channels : 1; }
  std::uint32_t result() const { return (size + 2 * padding() - kernel) / stride + 1; }
  std::uint32_t depth() const { return channels / groups() * kernel * kernel; }
};

/// How often each runs in a submission: the smallest of these kernels take less time than a submission's fixed cost.
constexpr int kTimes = 8;
constexpr double kMs = 1e3 / kTimes;

std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> made(count);
  for (auto& v : made) v = static_cast<float>(random() % 2001) * 1e-3F - 1;
  return made;
}

/// A loaded program of one op, called once, and its dispatches by themselves.
class Program {
 public:
  Program(const Device& device, const test::BlobBuilder& b, std::vector<std::vector<float>> inputs,
          std::vector<Shape> shapes, std::size_t results)
      : inputs_(std::move(inputs)), out(results) {
    const auto path =
        (std::filesystem::temp_directory_path() / fmt::format("nibble-bench-{}.pte", ::getpid())).string();
    const auto pte = test::make_pte(b, {});
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(pte.data()), static_cast<std::streamsize>(pte.size()));
    model_.emplace(must(Model::load(device, path, with_whole_dispatches())));
    std::filesystem::remove(path);
    session_.emplace(must(model_->session()));
    std::vector<HostTensor> given;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      given.push_back({.dtype = DType::f32, .shape = shapes[i], .data = inputs_[i].data()});
    }
    must(session_->set_inputs(given));
    const HostOutput to{.dtype = DType::f32, .data = out.data(), .bytes = out.size() * 4};
    must(session_->execute({&to, 1}));
    for (const auto* d : executor().stepper().dispatches()) dispatches_.emplace_back(executor(), *d);
  }

  void run(int times) { run_in_order(device(), dispatches_, times); }
  gpu::Executor& executor() { return *Internals::of(*session_)->executor; }
  gpu::Device& device() { return *executor().model().device(); }
  std::size_t dispatches() const { return dispatches_.size(); }

 private:
  std::vector<std::vector<float>> inputs_;
  std::optional<Model> model_;
  std::optional<Session> session_;
  std::deque<RawDispatch> dispatches_;

 public:
  std::vector<float> out;
};

gpu::Buffer upload(gpu::Device& device, const std::vector<float>& data, std::size_t count) {
  constexpr auto kUsage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc;
  auto buffer = must(device.make_buffer(count * 4, kUsage, "a buffer of the first rung"));
  if (!data.empty()) device.call().QueueWriteBuffer(device.queue(), buffer.get(), 0, data.data(), data.size() * 4);
  return buffer;
}

void measure(Report& report, const Device& device, const Case& c, int rounds) {
  const auto n = c.size;
  const auto r = c.result();
  const auto k = c.kernel;
  const auto pixels = std::size_t{r} * r;
  const auto x = numbers(std::size_t{c.channels} * c.size * c.size, 1);
  const auto w = numbers(std::size_t{c.channels} * c.depth(), 2);
  test::BlobBuilder b;
  const int in = b.tensor(DType::f32, {1, c.channels, n, n});
  const int weight =
      b.named_constant(DType::f32, {c.channels, c.channels / c.groups(), k, k}, "weight", test::bytes_of(w));
  const int out = b.tensor(DType::f32, {1, c.channels, r, r});
  const auto both = [&](std::int64_t v) { return b.ints({v, v}); };
  b.op("aten.convolution.default", {in, weight, b.null(), both(c.stride), both(c.padding()), both(1), b.boolean(false),
                                    both(0), b.integer(c.groups()), out});
  b.inputs({in});
  b.outputs({out});
  Program ours(device, b, {x}, {Shape{1, c.channels, n, n}}, c.channels * pixels);

  auto& gpu = ours.device();
  const auto rung_x = upload(gpu, x, x.size());
  const auto rung_w = upload(gpu, w, w.size());
  const auto rung_out = upload(gpu, {}, ours.out.size());
  const std::array<std::uint32_t, 8> params{
      c.channels / c.groups(), c.channels, c.groups(), c.size, c.result(), c.kernel, c.stride, c.padding()};
  const auto groups = static_cast<std::uint32_t>((ours.out.size() + 63) / 64);
  RawDispatch rung(gpu,
                   {"first rung",
                    std::string(wgsl::convolution_first_rung.body),
                    {Access::read, Access::read, Access::read_write},
                    {}},
                   {rung_x.get(), rung_w.get(), rung_out.get()}, {groups, 1, 1}, std::as_bytes(std::span(params)));
  // A first rung that computes something else would be no reference.
  std::vector<float> other(ours.out.size());
  rung.run_and_read(2, other.size() * 4, reinterpret_cast<std::byte*>(other.data()));
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (!(std::abs(ours.out[i] - other[i]) <= 2e-3F)) die("the convolution and the first rung disagree");
  }

  const auto name =
      fmt::format("{} {}x{} of {}x{}x{}, stride {} ({} dispatches)", c.is_depthwise ? "depthwise" : "filters", c.kernel,
                  c.kernel, c.size, c.size, c.channels, c.stride, ours.dispatches());
  if (c.is_depthwise) {
    const auto quads = static_cast<std::uint32_t>(std::max(x.size(), ours.out.size()) / 4);
    const std::array<std::uint32_t, 4> count{quads, 0, 0, 0};
    const auto to = upload(gpu, {}, std::size_t{quads} * 4);
    RawDispatch copy(gpu, {"copy", std::string(wgsl::copy_vec4.body), {Access::read, Access::read_write}, {}},
                     {rung_x.get(), to.get()}, {(quads + 63) / 64, 1, 1}, std::as_bytes(std::span(count)));
    const auto t =
        alternate({[&] { ours.run(kTimes); }, [&] { copy.run(kTimes); }, [&] { rung.run(kTimes); }}, rounds, 1);
    report.add(name + ", against a copy of its bytes", t[0] * kMs, t[1] * kMs, "ms",
               c.kernel == 3 ? "<= 2.5" : "<= 3.5");
    report.add(name + ", against the first rung", t[0] * kMs, t[2] * kMs, "ms", "<= 0.125");
    // The least that any kernel takes: with stride 2 the first rung has so little to compute that this misses the goal.
    report.add(name + ", a copy of its bytes against the first rung", t[1] * kMs, t[2] * kMs, "ms", "");
    return;
  }
  test::BlobBuilder m;
  const auto depth = c.depth();
  const int a = m.named_constant(DType::f32, {c.channels, depth}, "weight", test::bytes_of(w));
  const int mat2 = m.tensor(DType::f32, {depth, r * r});
  const int product = m.tensor(DType::f32, {c.channels, r * r});
  m.op("aten.mm.default", {a, mat2, product});
  m.inputs({mat2});
  m.outputs({product});
  Program mm(device, m, {numbers(c.depth() * pixels, 3)}, {Shape{depth, r * r}}, c.channels * pixels);
  const auto t = alternate({[&] { ours.run(kTimes); }, [&] { mm.run(kTimes); }, [&] { rung.run(kTimes); }}, rounds, 1);
  report.add(name + ", against a product of as many multiplications", t[0] * kMs, t[1] * kMs, "ms", "<= 1.3");
  report.add(name + ", against the first rung", t[0] * kMs, t[2] * kMs, "ms", "<= 0.125");
}

int run(int argc, char** argv) {
  CLI::App app{"Measures convolutions against references in the same run."};
  BenchOptions options{.json = {}, .device = {}, .rounds = 5};
  options.add_to(app);
  bool only_depthwise = false;
  app.add_flag("--depthwise", only_depthwise, "Only filters that see one channel each");
  CLI11_PARSE(app, argc, argv);

  const auto device = must(Device::open(options.device));
  Report report(device.info().name);
  for (const auto& [size, channels] : {std::pair{56U, 64U}, std::pair{28U, 128U}, std::pair{14U, 256U}}) {
    if (!only_depthwise) {
      measure(report, device, {size, channels, 3, 1}, options.rounds);
      measure(report, device, {size, channels, 1, 1}, options.rounds);
      measure(report, device, {size, channels, 3, 2}, options.rounds);
    }
    measure(report, device, {size, channels, 3, 1, true}, options.rounds);
    measure(report, device, {size, channels, 3, 2, true}, options.rounds);
  }
  measure(report, device, {28, 128, 5, 1, true}, options.rounds);
  measure(report, device, {28, 128, 5, 2, true}, options.rounds);
  report.finish(options.json);
  return 0;
}

}  // namespace
}  // namespace nibble::bench

int main(int argc, char** argv) { return nibble::bench::run(argc, argv); }
