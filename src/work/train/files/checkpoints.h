// SPDX-License-Identifier: Apache-2.0
// The names of checkpoint directories (`checkpoint-<step>`) and which of them are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

std::string checkpoint_name(int64_t step);
// The step in a checkpoint's name; nothing for other names.
std::optional<int64_t> checkpoint_step(const std::string& name);

// The names that are checkpoints, by step.
std::vector<std::string> sorted_checkpoints(const std::vector<std::string>& names);
// The checkpoints in a directory, by step; none where there is no directory.
std::vector<std::string> checkpoints_in(const std::filesystem::path& folder);
// The checkpoint to resume from (get_last_checkpoint).
std::optional<std::string> last_checkpoint(const std::vector<std::string>& names);
// The newest checkpoint in a directory that is whole: its trainer_state.json, which is written last, is there, and what
// its manifest names, if it has one. None where there is none.
std::optional<std::string> last_whole_checkpoint(const std::filesystem::path& folder);

// Removes the checkpoints in a directory that another run left: directories checkpoint-N with a trainer_state.json.
void remove_checkpoints(const std::filesystem::path& folder);

// What the name of a checkpoint begins with while it is written or removed.
inline constexpr std::string_view kUnfinishedPrefix = "tmp-";
// Removes what a killed run left: directories that are not yet, or no longer, checkpoints.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);

// The checkpoints to delete, oldest first, so that at most `limit` are left. The newest (to resume from) and the best
// stay, so two may be left where the limit is 1. No limit, or one of 0, deletes nothing.
std::vector<std::string> checkpoints_to_delete(const std::vector<std::string>& names, std::optional<int64_t> limit,
                                               const std::optional<std::string>& best);
// At the end of a run with a limit of 1: all but the best.
std::vector<std::string> checkpoints_to_delete_at_end(const std::vector<std::string>& names,
                                                      std::optional<int64_t> limit,
                                                      const std::optional<std::string>& best);

}  // namespace transom
