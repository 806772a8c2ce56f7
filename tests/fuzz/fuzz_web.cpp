// The door between JavaScript and WebAssembly: the planner's exports, in any order, with a program that lies, records
// that nobody would write, and numbers of sessions that are not there.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "plan_and_step.hpp"
#include "web/tune/exports.hpp"

namespace {

using namespace nibble::web;  // NOLINT(google-build-using-namespace): a program of one file
namespace wire = nibble::wire;

[[noreturn]] void bug(const char* what, std::string_view why = {}) {
  std::fprintf(stderr, "%s %.*s\n", what, static_cast<int>(why.size()), why.data());
  std::abort();
}

/// A text whose address has 32 bits, as all have in wasm. It ends with its page: who reads on is found out.
class LowText {
 public:
  LowText() {
    page_ = static_cast<char*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
    if (page_ == MAP_FAILED || mprotect(page_ + kPage, kPage, PROT_NONE) != 0) bug("there is no memory for texts");
  }

  std::uint32_t place(std::string_view text) {
    char* at = page_ + kPage - text.size();
    std::memcpy(at, text.data(), text.size());
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at));
  }

 private:
  static constexpr std::size_t kPage = 4096;
  char* page_;
};

/// Reads all of it: AddressSanitizer tells if it is not there.
template <class T>
std::span<const T> items(const wire::List<T>& list) {
  unsigned sum = 0;
  for (const auto byte : std::as_bytes(std::span(list.data, list.count))) sum += static_cast<unsigned>(byte);
  [[maybe_unused]] static volatile unsigned sink;
  sink = sum;
  return {list.data, list.count};
}

std::string_view view_of(const wire::Text& text) {
  return {reinterpret_cast<const char*>(items(wire::List(std::span(text.data, text.bytes))).data()), text.bytes};
}

/// One caller's way through the exports. The input decides it, so that a find is found again.
class Caller {
 public:
  explicit Caller(std::span<const std::uint8_t> file)
      : file_(std::as_bytes(file)), random_(nibble::test::seed_of(file)) {
    nibble_program_new();
  }
  ~Caller() {
    for (std::uint32_t i = 0; i <= kSessions; ++i) nibble_session_free(i);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void call() {
    void (Caller::* const steps[])() = {&Caller::head,   &Caller::container, &Caller::blob,    &Caller::plan,
                                        &Caller::name,   &Caller::open,      &Caller::take,    &Caller::host_data,
                                        &Caller::update, &Caller::fault,     &Caller::element, &Caller::close,
                                        &Caller::ranges, &Caller::tune};
    constexpr std::size_t kReading = 4;
    const auto any = [&] { (this->*steps[draw(std::size(steps))])(); };
    for (std::size_t i = 0; i < kReading; ++i) {
      if (rarely()) any();
      (this->*steps[i])();
    }
    open();
    for (int i = 0; i < 40; ++i) any();
    nibble_program_new();  // sessions stay
    for (int i = 0; i < 4; ++i) any();
  }

 private:
  static constexpr std::uint32_t kSessions = 4;

  std::size_t draw(std::size_t below) { return random_() % below; }
  bool rarely() { return draw(16) == 0; }
  /// A number that is mostly `sane`.
  std::uint64_t odd(std::uint64_t sane) {
    constexpr std::uint64_t kOdd[] = {
        0, 1, 2, 7, 8, 9, 255, 65536, 0x7fffffff, 0xffffffff, ~std::uint64_t{0} >> 1U, ~std::uint64_t{0}};
    return rarely() ? kOdd[draw(std::size(kOdd))] : sane;
  }
  std::uint32_t odd32(std::uint32_t sane) { return static_cast<std::uint32_t>(odd(sane)); }
  /// What the caller asks for; an address beyond it would be told.
  std::uint32_t count(std::uint32_t sane) { return std::min(odd32(sane), 1U << 12U); }
  std::uint32_t session() { return odd32(1 + static_cast<std::uint32_t>(draw(kSessions))); }

  /// `result`, or an error that is one sentence.
  template <class T>
  T told(T result) {
    if (!result) check(*nibble_error());
    return result;
  }

  static void check(const wire::Failure& failure) {
    const auto message = view_of(failure.message);
    if (message.empty() || message.find('\n') != message.npos) bug("no sentence:", message);
    if (failure.code >= static_cast<std::uint32_t>(nibble::ErrorCode::internal)) bug("internal:", message);
  }

  /// A copy of a range of the file, mostly; what lies behind it is not to be read.
  std::vector<std::byte> part(std::uint64_t offset, std::uint64_t size) {
    offset = std::min<std::uint64_t>(offset, file_.size());
    size = std::min<std::uint64_t>(size, file_.size() - offset);
    if (rarely()) size = draw(size + 1);
    const auto there = file_.subspan(offset, size);
    return {there.begin(), there.end()};
  }

  void head() {
    const auto first = part(0, file_.size());
    const auto size = odd(file_.size());
    const auto* range = told(nibble_program_head(first.data(), static_cast<std::uint32_t>(first.size()), size));
    if (range == nullptr) return;
    next_ = *range;
    size_ = size;
  }

  void container() {
    const auto bytes = part(next_.offset, next_.size);
    const std::string_view method = rarely() ? "no such method" : "";
    const auto* range = told(nibble_program_container(bytes.data(), static_cast<std::uint32_t>(bytes.size()),
                                                      method.data(), static_cast<std::uint32_t>(method.size())));
    if (range != nullptr) next_ = *range;
  }

  void blob() {
    const auto bytes = part(next_.offset, next_.size);
    told(nibble_program_blob(bytes.data(), static_cast<std::uint32_t>(bytes.size())));
  }

  void plan() {
    const auto seed = static_cast<std::uint32_t>(random_());
    const auto profile = nibble::test::profile_by(nibble::AdapterKind::cpu, seed);
    const auto& limits = profile.limits;
    const wire::Profile record{.kind = odd32(static_cast<std::uint32_t>(draw(4))),
                               .shader_f16 = profile.shader_f16,
                               .packed_dot = profile.packed_dot,
                               .subgroups = profile.subgroups,
                               .subgroup_min = odd32(profile.subgroup_min),
                               .subgroup_max = odd32(profile.subgroup_max),
                               .max_buffer_size = odd(limits.max_buffer_size),
                               .max_storage_binding_size = odd(limits.max_storage_binding_size),
                               .max_workgroups_per_dimension = odd32(limits.max_workgroups_per_dimension),
                               .max_workgroup_invocations = odd32(limits.max_workgroup_invocations),
                               .max_workgroup_size_x = odd32(limits.max_workgroup_size_x),
                               .max_workgroup_bytes = odd32(limits.max_workgroup_bytes)};
    const auto chosen = nibble::test::options_by(seed);
    std::vector<wire::Text> passes(chosen.without_passes.begin(), chosen.without_passes.end());
    std::vector<wire::ForcedVariant> variants;
    for (const auto& [choice, variant] : chosen.variants)
      variants.push_back({.choice = std::string_view(choice), .variant = std::string_view(variant)});
    const wire::TuningField field{.name = std::string_view("rows"), .kind = odd32(1), .text = {}, .count = odd32(2)};
    const wire::TuningField fields[] = {field, field};
    const wire::TuningChoice choice{.is_object = odd32(1), .fields = std::span<const wire::TuningField>(fields)};
    wire::Options options;
    options.max_shard_bytes = odd(chosen.max_shard_bytes);
    options.f16_cache = chosen.f16_cache;
    options.candidates = odd(chosen.candidates);
    options.without_passes = std::span<const wire::Text>(passes);
    options.variants = std::span<const wire::ForcedVariant>(variants);
    const wire::DeviceTuning tuning{.fields = std::span<const wire::TuningField>(fields),
                                    .has_choices = odd32(1),
                                    .choices = std::span(&choice, 1)};
    options.tuning.is_for_any = odd32(1);
    if (rarely()) options.tuning.tunings = std::span(&tuning, 1);
    options.max_device_bytes = chosen.max_device_bytes;
    options.max_host_bytes = chosen.max_host_bytes;
    options.max_nodes = chosen.max_nodes;
    options.max_dispatches = chosen.max_dispatches;
    const auto* layout = told(nibble_program_plan(&record, &options));
    if (layout != nullptr) keep(*layout);
  }

  /// What TypeScript relies on: numbers name something, and uploads lie in their buffers and in the file.
  void keep(const wire::Layout& layout) {
    const auto buffers = items(layout.buffers);
    const auto constants = items(layout.constants);
    for (const auto& one : constants) {
      view_of(one.key);
      if (one.offset > size_ || one.bytes > size_ - one.offset) bug("a constant beyond the file");
    }
    for (const auto& one : items(layout.uploads)) {
      if (one.buffer >= buffers.size() || one.constant >= constants.size()) bug("an upload of nothing");
      const auto room = buffers[one.buffer].bytes;
      const auto bytes = one.narrow != 0 ? one.bytes / 2 : one.bytes;
      if (one.buffer_offset > room || bytes > room - one.buffer_offset) bug("an upload beyond its buffer");
    }
    for (const auto& one : items(layout.pipelines)) {
      view_of(one.label);
      view_of(one.wgsl);
      bindings_.push_back(items(one.bindings).size());
    }
    buffers_.assign(buffers.begin(), buffers.end());
    check_dispatches(items(layout.preparation));
    items(layout.preparation_params);
    inputs_.assign(items(layout.inputs).begin(), items(layout.inputs).end());
    outputs_ = items(layout.graph_outputs).size();
    states_ = items(layout.states).size();
    for (const auto& one : items(layout.graph_inputs))
      if (one.used != 0 && one.buffer >= buffers_.size()) bug("an input without a buffer");
    for (const auto& method : items(layout.constant_methods))
      for (const auto& value : items(method.values)) view_of(value);
    if (draw(2) == 0) name();
  }

  void check_dispatches(std::span<const wire::Dispatch> dispatches) const {
    for (const auto& one : dispatches) {
      if (one.pipeline >= bindings_.size()) bug("a dispatch of no pipeline");
      if (one.binding_count != bindings_[one.pipeline]) bug("a dispatch with other bindings");
      for (std::size_t i = 0; i < one.binding_count; ++i)
        if (one.bindings[i] >= buffers_.size()) bug("a dispatch binds no buffer");
    }
  }

  void name() {
    const std::string_view text = rarely() ? "" : "tokens";
    told(nibble_program_name_input(odd32(static_cast<std::uint32_t>(draw(3))), text.data(),
                                   static_cast<std::uint32_t>(text.size())));
  }

  void ranges() {
    std::vector<std::uint64_t> rows;
    for (auto left = std::min(odd32(static_cast<std::uint32_t>(states_)), 64U); left > 0; --left) {
      rows.push_back(odd(draw(4)));
    }
    const auto* found = told(nibble_program_live_ranges(rows.data(), static_cast<std::uint32_t>(rows.size())));
    if (found == nullptr) return;
    for (const auto& one : items(found->ranges)) {
      if (one.buffer >= buffers_.size()) bug("a range of no buffer");
      const auto room = buffers_[one.buffer].bytes;
      if (one.offset > room || one.bytes > room - one.offset) bug("a range beyond its buffer");
      if (one.offset % 4 != 0 || one.bytes % 4 != 0) bug("a range that cannot be copied");
    }
  }

  void open() {
    const auto number = told(nibble_session_new());
    if (number > kSessions) nibble_session_free(number);
  }

  void take() {
    const auto number = session();
    const auto given = count(static_cast<std::uint32_t>(inputs_.size()));
    auto* records = const_cast<wire::GivenInput*>(told(nibble_session_given(number, given)));
    for (std::uint32_t i = 0; records != nullptr && i < given; ++i) records[i] = input(i);
    const auto* taken = told(nibble_session_take(number));
    if (taken != nullptr) items(taken->inputs);
  }

  wire::GivenInput input(std::size_t i) {
    static constexpr std::string_view kWords[] = {"", "uint32", "1.5", "99999999999999999999", "-"};
    const auto word = kWords[rarely() ? draw(std::size(kWords)) : 0];
    wire::MethodInput want;
    if (i < inputs_.size()) want = inputs_[i];
    wire::GivenInput one{.kind = odd32(want.is_int != 0 ? 2 : 0),
                         .dtype = odd32(want.dtype),
                         .word = words_.place(word),
                         .word_bytes = static_cast<std::uint32_t>(word.size()),
                         .has_shape = odd32(1),
                         .shape = {.rank = odd32(want.shape.rank), .dims = want.shape.dims}};
    one.count = 1;
    for (std::size_t dim = 0; dim < std::min<std::size_t>(want.shape.rank, one.shape.dims.size()); ++dim) {
      auto& size = one.shape.dims[dim];
      if (want.dynamic != 0) size = draw(static_cast<std::size_t>(size) + 1);
      size = odd(size);
      one.count *= size;
    }
    one.count = odd(one.count);
    one.has_integer = odd32(want.is_int);
    one.integer = static_cast<std::int64_t>(odd(draw(100)));
    return one;
  }

  void host_data() {
    const auto elements = count(1 + static_cast<std::uint32_t>(draw(64)));
    auto* at = const_cast<std::int32_t*>(
        told(nibble_session_host_data(session(), odd32(static_cast<std::uint32_t>(draw(3))), elements)));
    for (std::uint32_t i = 0; at != nullptr && i < elements; ++i) at[i] = static_cast<std::int32_t>(odd(draw(8)));
  }

  void update() {
    const auto* step = told(nibble_session_update(session()));
    if (step == nullptr) return;
    check_dispatches(items(step->dispatches));
    items(step->params);
    if (items(step->outputs).size() != outputs_ || items(step->states).size() != states_) bug("a step of another plan");
  }

  /// A case, its node by itself, and some turns. Looking for cases plans many calls, so it is done seldom.
  void tune() {
    if (draw(4) != 0) return;
    const auto* found = rarely() ? nullptr : told(nibble_tuning_cases(1e9));
    const auto cases = found == nullptr ? std::size_t{1} : std::max<std::size_t>(1, items(found->cases).size());
    const auto* bench = told(nibble_tuning_bench(odd32(static_cast<std::uint32_t>(draw(cases)))));
    if (bench != nullptr) items(bench->inputs);
    const auto number = told(nibble_tuning_session());
    const auto variant = odd32(static_cast<std::uint32_t>(draw(3)));
    told(nibble_tuning_force(number, variant));
    const std::array<double, 4> times = {1, 2, 3, -1};
    const auto* bytes = std::as_bytes(std::span(times)).data();
    told(nibble_tuning_agree(odd32(0), bytes, bytes, sizeof(times)));
    told(nibble_tuning_race(times.data(), static_cast<std::uint32_t>(1 + draw(4)), static_cast<double>(draw(1000))));
    for (int i = 0; i < 40; ++i) told(nibble_tuning_next(static_cast<double>(draw(8)) - 1));
    const auto* rows = told(nibble_tuning_rows());
    for (const auto& row : rows == nullptr ? std::span<const wire::TunedRow>() : items(rows->rows))
      view_of(row.variant);
    nibble_session_free(number);
  }

  void fault() { check_fault(*nibble_session_fault(session(), odd32(1), odd32(3), odd32(7), odd32(0))); }

  void element() {
    const std::string_view word = "NaN";
    const wire::BadElement bad{.kind = odd32(static_cast<std::uint32_t>(draw(3))),
                               .position = odd(draw(100)),
                               .has_value = odd32(1),
                               .value = static_cast<std::int64_t>(odd(draw(1000))),
                               .word = words_.place(word),
                               .word_bytes = 3};
    check(*nibble_session_bad_element(session(), odd32(static_cast<std::uint32_t>(draw(3))), &bad));
  }

  /// Kernels report no such faults, so that one is internal.
  static void check_fault(const wire::Failure& failure) {
    if (view_of(failure.message).empty()) bug("no sentence");
  }

  void close() { nibble_session_free(session()); }

  std::span<const std::byte> file_;
  std::minstd_rand random_;
  inline static LowText words_;
  wire::FileRange next_{};
  std::uint64_t size_ = 0;  ///< of the file, as the planner was told
  std::vector<wire::Buffer> buffers_;
  std::size_t outputs_ = 0;
  std::size_t states_ = 0;
  std::vector<std::size_t> bindings_;  ///< per pipeline
  std::vector<wire::MethodInput> inputs_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Caller({data, size}).call();
  return 0;
}
