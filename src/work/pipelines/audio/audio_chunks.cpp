// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/audio_chunks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

double checked_seconds(double value, const char* name) {
  if (!(value >= 0) || value > 1e9) fail("parameter {}: expected a number of seconds, found {}", name, value);
  return value;
}

}  // namespace

std::optional<ChunkOptions> chunk_options(const TaskOptions& given) {
  const double seconds = checked_seconds(number_option(given, "chunk_length_s").value_or(0), "chunk_length_s");
  if (seconds == 0) {
    refuse_without_effect(given, {"stride_length_s"}, "without chunk_length_s");
    return std::nullopt;
  }
  ChunkOptions options{seconds, seconds / 6, seconds / 6};
  if (!is_given(given, "stride_length_s")) return options;
  const auto* sides = std::get_if<std::vector<double>>(given.find("stride_length_s"));
  if (sides && sides->size() != 2)
    fail("parameter stride_length_s: expected a number of seconds, or one for each side, found {}", *sides);
  options.left = checked_seconds(sides ? (*sides)[0] : *number_option(given, "stride_length_s"), "stride_length_s");
  options.right = sides ? checked_seconds((*sides)[1], "stride_length_s") : options.left;
  return options;
}

std::vector<SoundChunk> cut(const Sound& sound, const ChunkOptions& options, int64_t multiple) {
  const auto aligned = [&](double seconds) {
    const double exact = seconds * static_cast<double>(sound.sampling_rate) / static_cast<double>(multiple);
    return static_cast<int64_t>(std::nearbyint(exact)) * multiple;
  };
  const int64_t length = aligned(options.seconds), left = aligned(options.left), right = aligned(options.right);
  if (length <= left + right)
    fail("chunk_length_s: {} must be more than both strides, {} and {}", options.seconds, options.left, options.right);
  std::vector<SoundChunk> chunks;
  const auto total = static_cast<int64_t>(sound.samples.size());
  for (int64_t begin = 0; begin < total; begin += length - left - right) {
    const int64_t end = std::min(begin + length, total), skipped = begin == 0 ? 0 : left;
    const bool last = begin + length >= total;
    if (end - begin > skipped)
      chunks.push_back({{{sound.samples.begin() + begin, sound.samples.begin() + end}, sound.sampling_rate},
                        skipped,
                        last ? 0 : right});
    if (last) break;
  }
  return chunks;
}

}  // namespace transom
