// SPDX-License-Identifier: Apache-2.0
// Runs that are over, or go on elsewhere: the curves in the trainer_state.json of their output directories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/dashboard/monitor/series.h"

namespace transom::dashboard {

struct SavedRun {
  std::string name;                 // of its directory
  std::filesystem::path directory;  // as it was found
  std::filesystem::path state;      // its trainer_state.json, or that of its newest checkpoint
};

// The runs in `directories`, or where there are none those beside `output_dir`, by name; 64 at most. Directories
// without a trainer_state.json and `output_dir` itself are left out; nothing is thrown for what cannot be read.
std::vector<SavedRun> find_saved_runs(const std::vector<std::string>& directories,
                                      const std::filesystem::path& output_dir);

// The curves of its log. Throws Error if the file is larger than 64 MiB or is no trainer_state.json.
std::vector<Series> read_saved_run(const SavedRun& run);

}  // namespace transom::dashboard
