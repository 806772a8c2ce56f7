#include "api/kept_tuning.hpp"
#include "api/session.hpp"
#include "graph/guarded.hpp"
#include "program/file.hpp"

namespace nibble {
namespace {

Result<std::string> tune_program(const std::shared_ptr<gpu::Device>& device, const std::string& path,
                                 const TuneOptions& options) {
  TRY(gpu::check_process());
  TRY_ASSIGN(const File file, File::open(path));
  TRY_ASSIGN(const auto program, read_program(file, options.method));
  const auto kept = !options.output.empty() ? options.output : kept_tuning_path(program.graph, options);
  const auto if_damaged = !options.output.empty() ? IfDamaged::fail : IfDamaged::replace;
  if (kept.empty()) return fail(ErrorCode::io, "there is no folder to keep a tuning in: $NIBBLE_CACHE names none");
  TRY(check_keeping(kept, if_damaged));
  FileConstants constants(file, program.graph.constants);
  Options planned = options;
  auto given = usable_tuning(options.tuning, device->profile());
  planned.tuning = std::move(given.rows);
  TRY_ASSIGN(const auto tuned, measure_tuning(device, program.graph, constants, planned, options.on_progress));
  Json json = to_json(tuned, device->profile());
  TRY(keep_tuning(kept, json, if_damaged));
  if (tuned.ended == gpu::Tuned::Ended::stopped) {
    return fail(ErrorCode::cancelled, "tuning was stopped when {} of {} cases were measured; they are in '{}'",
                tuned.measured, tuned.cases, kept);
  }
  // It is said to who asked, and not kept: it is not about what was measured.
  if (!given.word.empty()) json["refused"].push_back(given.word);
  return merge_tuning({}, json);
}

}  // namespace

Result<std::string> tune(const Device& device, const std::string& path, const TuneOptions& options) {
  return guarded([&] { return tune_program(Internals::of(device)->gpu, path, options); });
}

}  // namespace nibble
