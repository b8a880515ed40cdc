// SPDX-License-Identifier: Apache-2.0
// Whether a disk has room for what a run is going to write, asked before its first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace transom {

struct DiskNeed {
  uint64_t model = 0;       // bytes of the weights, which are written at the end
  uint64_t checkpoint = 0;  // of one checkpoint: weights and the optimizer's state
  int64_t checkpoints = 0;  // that lie there at once, the one that is being written included
  uint64_t most() const { return model + checkpoint * static_cast<uint64_t>(checkpoints); }
};

// How many checkpoints lie there at once of those that a run writes; `limit` is save_total_limit.
int64_t checkpoints_at_once(int64_t written, std::optional<int64_t> limit);

// Throws where `available` bytes do not even take the model; else a sentence of warning where they do not take all.
std::optional<std::string> short_of_space(const DiskNeed& need, uint64_t available, const std::string& directory);

// Of the file system of a directory that is there; nothing where it does not say.
std::optional<uint64_t> available_bytes(const std::filesystem::path& directory);

}  // namespace transom
