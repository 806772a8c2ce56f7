// The C API with a device behind it: whatever the file and the inputs are, each call does its work or says why not, and
// passes change no number.
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "capi_calls.hpp"
#include "structure.hpp"

namespace {

using namespace nibble::test;  // NOLINT(google-build-using-namespace): this is one of its tests

nibble_device* device = nullptr;
int file = -1;
std::string path;
std::string state_path;
std::string tuning_path;
/// How far inputs came: what is refused at once tests little.
struct {
  std::size_t all, loaded, compared, acted, tuned, generated;
} counts{};

/// What the options point to lives here.
struct OptionTexts {
  std::string without;
  std::string variants;
  std::string tuning;
};

constexpr std::string_view kRounds = "batch_norm";

nibble_load_options options_of(Draw& draw, OptionTexts& texts) {
  auto options = limits();
  constexpr std::uint64_t kShards[] = {0, 0, 0, 16, 100, 1024};
  options.max_shard_bytes = kShards[draw.below(std::size(kShards))];
  options.f16_cache = draw.one_in(8) ? 1 : 0;
  options.staged = draw.one_in(4) ? 1 : 0;
  if (draw.one_in(4)) options.max_batch_work = 1 + draw.below(64);
  // The one pass that may change how a sum is rounded; use_oddly() lets it run.
  texts.without = kRounds;
  for (const auto& pass : nibble::passes()) {
    if (pass.name != texts.without && draw.one_in(8)) texts.without += "," + std::string(pass.name);
  }
  if (draw.one_in(2)) {
    for (const auto* choice : nibble::all_choices(nibble::ops::registry())) {
      const auto& variant = choice->variants[draw.below(choice->variants.size())];
      texts.variants +=
          (texts.variants.empty() ? "" : ",") + std::string(choice->name) + "=" + std::string(variant.name);
    }
  }
  if (draw.one_in(4)) {
    for (const auto& row : tuning_by(draw.seed())) {
      texts.tuning += fmt::format(R"({}{{"choice": "{}", "variant": "{}", "rows": [{}, {}], "width": [{}, {}]}})",
                                  texts.tuning.empty() ? "" : ", ", row.choice, row.variant, row.min_rows, row.max_rows,
                                  row.min_width, row.max_width);
    }
    texts.tuning = fmt::format(R"({{"choices": [{}]}})", texts.tuning);
    options.tuning = texts.tuning.c_str();
  }
  options.without_passes = texts.without.c_str();
  options.variants = texts.variants.c_str();
  return options;
}

ModelPtr load(const nibble_load_options& options) {
  return ModelPtr(nibble_model_load(device, path.c_str(), &options));
}

/// Does something with a session and its state, between two calls. False if it is refused; then nothing is changed, or
/// calls are refused as well.
bool act(SessionPtr& session, std::uint64_t what, std::int64_t rows) {
  const auto is_done = [](bool done, const char* call) {
    if (!done) (void)sentence(call);
    return done;
  };
  ++counts.acted;
  switch (what % 4) {
    case 0: {
      SessionPtr forked(nibble_session_fork(session.get()));
      if (!is_done(forked != nullptr, "nibble_session_fork")) return false;
      session = std::move(forked);
      return true;
    }
    case 1:
      return is_done(nibble_session_save(session.get(), state_path.c_str()), "nibble_session_save") &&
             is_done(nibble_session_reset(session.get()), "nibble_session_reset") &&
             is_done(nibble_session_restore(session.get(), state_path.c_str()), "nibble_session_restore");
    case 2: return is_done(nibble_session_reset(session.get()), "nibble_session_reset");
    default: return is_done(nibble_session_rewind(session.get(), rows), "nibble_session_rewind");
  }
}

/// While it lives, the device is traced.
struct Traced {
  explicit Traced(bool is_wanted) : trace(is_wanted ? nibble_device_start_trace(device) : nullptr) {
    if (is_wanted && !trace) report(sentence("nibble_device_start_trace"));
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;
  ~Traced() {
    if (trace && nibble_trace_stop(trace.get()) == nullptr) report(sentence("nibble_trace_stop"));
  }
  const TracePtr trace;
};

/// A few tokens, where the program is a language model.
void generate(nibble_model* model, Draw& draw) {
  const GeneratorPtr one(nibble_generator_make(model));
  if (!one) return (void)sentence("nibble_generator_make");
  ++counts.generated;
  const std::vector<std::int32_t> prompt(1 + draw.below(8), static_cast<std::int32_t>(draw.below(4)));
  if (!nibble_generator_start(one.get(), prompt.data(), prompt.size(), R"({"max_tokens": 4})")) {
    return (void)sentence("nibble_generator_start");
  }
  nibble_token token{};
  for (int i = 0; i < 3; ++i) {
    if (nibble_generator_next(one.get(), nullptr, 0, &token) < 0) return (void)sentence("nibble_generator_next");
    const GeneratorPtr forked(nibble_generator_fork(one.get()));
    if (!forked) (void)sentence("nibble_generator_fork");
  }
  if (!nibble_generator_rewind(one.get(), 1)) (void)sentence("nibble_generator_rewind");
}

/// Passes may take away what is refused or fails, because nobody reads it; but they may refuse nothing themselves.
void compare_passes(nibble_load_options options, Draw draw) {
  const auto with = load(options);
  std::string all;
  for (const auto& pass : nibble::passes()) all += (all.empty() ? "" : ",") + std::string(pass.name);
  const std::string why = with ? "" : sentence("nibble_model_load");
  options.without_passes = all.c_str();
  options.staged = 1 - options.staged;
  const auto without = load(options);
  if (!without) {
    (void)sentence("nibble_model_load");
    return;
  }
  if (!with) {
    // Kernels of joined nodes may need more memory or dispatches than the limits of this target allow.
    if (why.find("but the option") == std::string::npos) report("only with passes: " + why);
    return;
  }
  SessionPtr one(nibble_model_session(with.get()));
  SessionPtr two(nibble_model_session(without.get()));
  if (!one || !two) report(sentence("nibble_model_session"));
  const auto outputs = nibble_model_output_count(with.get());
  for (std::size_t call = 0; call < 2; ++call) {
    const auto inputs = inputs_of(with.get(), draw, false);
    const auto expected = run(two.get(), outputs, inputs);
    const auto results = run(one.get(), outputs, inputs, nullptr, draw.one_in(4));
    if (!expected.is_done) return;
    if (!results.is_done) report(std::string("a call fails only with passes: ") + nibble_error());
    compare(results, expected, call);
    if (call == 0) ++counts.compared;
    const auto what = draw.below(8);
    const auto rows = static_cast<std::int64_t>(draw.below(4)) - 1;
    if (what >= 4) continue;
    // What the other one is refused as well, or only one of them can: a pass may keep a state of another kind.
    const bool is_done = act(one, what, rows);
    if (!act(two, what, rows) || !is_done) return;
  }
}

/// Calls that are wrong in a way, sessions that outlive their model, and a right call after all of them.
void use_oddly(nibble_load_options options, const OptionTexts& texts, Draw draw) {
  const Traced traced(draw.one_in(4));
  if (draw.one_in(2)) options.without_passes = texts.without.c_str() + kRounds.size();
  if (draw.one_in(8)) options.candidates = 1 + draw.below(64);
  auto model = load(options);
  if (!model) {
    (void)sentence("nibble_model_load");
    return;
  }
  ++counts.loaded;
  const auto outputs = nibble_model_output_count(model.get());
  if (nibble_model_constants_json(model.get()) == nullptr) report(sentence("nibble_model_constants_json"));
  nibble_tensor info{};
  if (nibble_model_input(model.get(), nibble_model_input_count(model.get()), &info) ||
      nibble_model_output(model.get(), outputs, &info)) {
    report("there is one input or output too many");
  }
  std::vector<SessionPtr> sessions;
  for (std::uint64_t i = 0; i < 1 + draw.below(2); ++i) {
    sessions.emplace_back(nibble_model_session(model.get()));
    if (!sessions.back()) report(sentence("nibble_model_session"));
  }
  const auto right = inputs_of(model.get(), draw, false);
  for (int i = 0; i < 3; ++i) {
    const auto odd = inputs_of(model.get(), draw, true);
    auto& session = sessions[draw.below(sessions.size())];
    (void)run(session.get(), outputs, odd, draw.one_in(2) ? &draw : nullptr, draw.one_in(4));
    if (draw.one_in(2)) (void)act(session, draw.below(4), static_cast<std::int64_t>(draw.below(4)) - 1);
    std::vector<nibble_tensor> answers(outputs);
    if (!nibble_model_run(model.get(), odd.tensors.data(), odd.tensors.size(), answers.data(), answers.size())) {
      (void)sentence("nibble_model_run");
    }
  }
  if (draw.one_in(2)) generate(model.get(), draw);
  if (draw.one_in(32)) {
    options.tune_ms = 1;
    ++counts.tuned;
    if (nibble_tune_json(device, path.c_str(), &options, tuning_path.c_str()) == nullptr)
      (void)sentence("nibble_tune_json");
    std::filesystem::remove(tuning_path);
  }
  // A call that was set up and not made, and one that was not set up.
  (void)nibble_session_set_inputs(sessions[0].get(), right.tensors.data(), right.tensors.size());
  if (draw.one_in(2)) model.reset();
  for (const auto& session : sessions) {
    (void)run(session.get(), outputs, right, &draw);
    std::vector<nibble_tensor> none(outputs);
    if (!nibble_session_execute(session.get(), none.data(), outputs)) (void)sentence("nibble_session_execute");
    (void)run(session.get(), outputs, right);
    if (nibble_session_states_json(session.get()) == nullptr) (void)sentence("nibble_session_states_json");
    model.reset();
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  device = nibble_device_open(nullptr, nullptr);
  if (device == nullptr) {
    std::fprintf(stderr, "fuzz_capi: %s\n", nibble_error());
    std::exit(2);
  }
  file = memfd_create("program", 0);
  path = fmt::format("/proc/self/fd/{}", file);
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("nibble-fuzz-{}", getpid());
  std::filesystem::create_directories(folder);
  state_path = folder / "state";
  tuning_path = folder / "tuning.json";
  std::atexit([] {
    nibble_device_free(device);  // what it still held would look like leaks
    std::filesystem::remove_all(std::filesystem::path(state_path).parent_path());
    std::fprintf(stderr, "%zu inputs, %zu loaded, %zu compared, %zu acts, %zu tuned, %zu generators\n", counts.all,
                 counts.loaded, counts.compared, counts.acted, counts.tuned, counts.generated);
  });
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int seed) {
  return nibble::test::mutate(data, size, most, seed, nibble::test::changed_pte);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  ++counts.all;
  Draw draw({data, size});
  OptionTexts texts;
  const auto options = options_of(draw, texts);
  const auto objects = nibble_device_live_objects(device);
  compare_passes(options, draw);
  use_oddly(options, texts, draw);
  if (const auto left = nibble_device_live_objects(device); left != objects) {
    report(fmt::format("{} GPU objects were there before, {} are left", objects, left));
  }
  // What cannot be read is for fuzz_pte: here it would only fill the corpus.
  return nibble::read_program(std::as_bytes(std::span(data, size))) ? 0 : -1;
}
