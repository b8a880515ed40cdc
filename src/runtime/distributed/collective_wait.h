// SPDX-License-Identifier: Apache-2.0
// How far a rank has come in each of its groups, as it tells rank 0 again and again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace transom {

class FlightRecorder;

struct CollectiveProgress {
  uint64_t started = 0;   // the number of the last one
  uint64_t waits_in = 0;  // the number of the first that has not ended; 0: none
  double waited = 0;      // seconds
  std::string what;       // of that one: "all_reduce of 4096 bytes of float32"
};

// By group, as text_of_ranks and FlightRecord name it.
using RankProgress = std::map<std::string, CollectiveProgress, std::less<>>;

RankProgress progress_of(FlightRecorder& recorder);

// The contents of a frame, and back; nothing where the bytes are not that.
std::string bytes_of_progress(const RankProgress& progress);
std::optional<RankProgress> progress_of_bytes(const std::string& bytes);

// "ranks 0-3", "all ranks (on the host)".
std::string name_of_group(const std::string& group);

// The ranks of a group, rising; nothing where the text names none, or one that is not below `ranks`.
std::optional<std::vector<int64_t>> ranks_of_text(const std::string& group, int64_t ranks);

}  // namespace transom
