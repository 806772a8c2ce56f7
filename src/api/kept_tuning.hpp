// Tunings of programs: measured, kept in files, and found again when a program is loaded.
#pragma once

#include <string>
#include <vector>

#include "api/tuning_json.hpp"
#include "api/tuning_merge.hpp"
#include "gpu/tuner.hpp"
#include "nibble/nibble.hpp"

namespace nibble {

/// The tuning that belongs to a program's file: model.tuning.json beside model.pte.
std::string tuning_beside(const std::string& program);
/// Where the tuning of a program is kept for this user: in $NIBBLE_CACHE, or in the user's cache folder for Nibble.
/// With options that change its kernels, elsewhere than without. Empty if there is no such folder.
std::string kept_tuning_path(const Graph& graph, const Options& options);

/// One of "tunings", with what there is to say about it.
Json to_json(const gpu::Tuned& tuned, const DeviceProfile& profile);

/// Measures the plan of a graph on a device, for as long as `options.tune_ms` says, whatever variants are forced.
Result<gpu::Tuned> measure_tuning(const std::shared_ptr<gpu::Device>& device, const Graph& graph,
                                  ConstantSource& source, const Options& options, const gpu::Progress& progress);

/// The tuning to plan a program with: the caller's, or else one that is kept, beside `program` (empty: none) or for the
/// user; or else, if it is wanted, one that is measured now, and kept, even if the load is stopped meanwhile. Then the
/// next load that wants one measures again. `notes` gets what there is to say.
Result<std::vector<TuningRow>> tuning_of_load(const std::shared_ptr<gpu::Device>& device, const Graph& graph,
                                              ConstantSource& source, const LoadOptions& options,
                                              const std::string& program, std::vector<std::string>& notes);

}  // namespace nibble
