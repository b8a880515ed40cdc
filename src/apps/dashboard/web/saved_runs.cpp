// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/web/saved_runs.h"

#include <algorithm>

#include "apps/dashboard/monitor/log_series.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "transom/trainer_state.h"
#include "work/train/files/checkpoints.h"

namespace transom::dashboard {
namespace {

constexpr size_t kMostRuns = 64, kMostLooked = 4096;
constexpr uintmax_t kMostBytes = 64u << 20;

void add_run(std::vector<SavedRun>& runs, const fs::path& directory, const fs::path& output_dir) {
  std::error_code none;
  if (!fs::is_directory(directory, none) || fs::equivalent(directory, output_dir, none)) return;
  const fs::path normal = fs::weakly_canonical(directory, none);
  SavedRun run{.name = (none ? directory : normal).filename().string(), .directory = directory};
  run.state = directory / "trainer_state.json";
  if (!fs::is_regular_file(run.state, none)) {
    const auto last = last_whole_checkpoint(directory);
    if (!last) return;
    run.state = directory / *last / "trainer_state.json";
  }
  if (runs.size() < kMostRuns) runs.push_back(std::move(run));
}

}  // namespace

std::vector<SavedRun> find_saved_runs(const std::vector<std::string>& directories, const fs::path& output_dir) {
  std::vector<SavedRun> runs;
  try {
    if (!directories.empty()) {
      for (const std::string& directory : directories) add_run(runs, directory, output_dir);
      return runs;
    }
    std::error_code none;
    fs::path own = fs::absolute(output_dir, none).lexically_normal();
    if (!own.has_filename()) own = own.parent_path();  // it was given with a slash at its end
    const fs::path parent = own.parent_path();
    std::vector<fs::path> beside;
    for (fs::directory_iterator each(parent, none), end; !none && each != end && beside.size() < kMostLooked;
         each.increment(none))
      beside.push_back(each->path());
    std::sort(beside.begin(), beside.end());
    for (const fs::path& directory : beside) add_run(runs, directory, output_dir);
  } catch (const Error&) {  // a directory that may not be read
  }
  return runs;
}

std::vector<Series> read_saved_run(const SavedRun& run) {
  std::error_code none;
  if (const auto size = fs::file_size(run.state, none); !none && size > kMostBytes)
    fail("{}: expected at most {} bytes, found {}", run.state.string(), kMostBytes, size);
  return series_of_log(TrainerState::load(run.state).log_history);
}

}  // namespace transom::dashboard
