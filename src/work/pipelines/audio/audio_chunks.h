// SPDX-License-Identifier: Apache-2.0
// Long sounds in chunks that overlap: what is said at the ends of a chunk is left to its neighbours, which know more of
// what stands around it.
#pragma once

#include <optional>
#include <vector>

#include "inputs/audio/sound.h"
#include "work/pipelines/parameters.h"

namespace transom {

struct ChunkOptions {
  double seconds, left, right;  // the length of a chunk, and what it shares with those before and behind it
};
// Of the options chunk_length_s and stride_length_s (a number, or one for each side; else a sixth of the length);
// empty where sounds go through whole.
std::optional<ChunkOptions> chunk_options(const TaskOptions& options);

struct SoundChunk {
  Sound sound;
  int64_t left, right;  // samples that belong to the neighbours
};
// Lengths are rounded to a number of samples that `multiple` divides.
std::vector<SoundChunk> cut(const Sound& sound, const ChunkOptions& options, int64_t multiple);

}  // namespace transom
