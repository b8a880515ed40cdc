// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/disk_space.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace transom {
namespace {

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

int64_t checkpoints_at_once(int64_t written, std::optional<int64_t> limit) {
  // The oldest is removed once the newest is whole.
  return limit && *limit > 0 ? std::min(written, *limit + 1) : written;
}

std::optional<std::string> short_of_space(const DiskNeed& need, uint64_t available, const std::string& directory) {
  if (available < need.model)
    fail("{}: the model takes {} and the disk has {} free: make room, or give another --output_dir", directory,
         megabytes(need.model), megabytes(available));
  if (available >= need.most()) return std::nullopt;
  return fmt::format(
      "{}: the run writes up to {} ({} checkpoints of {} and the model of {}) and the disk has {} free; see "
      "--save_total_limit, --save_only_model and --save_strategy",
      directory, megabytes(need.most()), need.checkpoints, megabytes(need.checkpoint), megabytes(need.model),
      megabytes(available));
}

std::optional<uint64_t> available_bytes(const std::filesystem::path& directory) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return std::nullopt;
  return space.available;
}

}  // namespace transom
