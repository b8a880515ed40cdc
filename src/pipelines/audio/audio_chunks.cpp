// SPDX-License-Identifier: Apache-2.0
#include "pipelines/audio/audio_chunks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

double seconds_of(const Json& value, const char* name) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 1e9)
    fail("parameter {}: expected a number of seconds, found {}", name, quoted(dump_json(value)));
  return value.get<double>();
}

}  // namespace

std::optional<ChunkOptions> chunk_options(const Json& parameters) {
  const auto chunk = parameters.find("chunk_length_s");
  const bool given = chunk != parameters.end() && !chunk->is_null();
  const double seconds = given ? seconds_of(*chunk, "chunk_length_s") : 0;
  if (seconds == 0) {
    refuse_without_effect(parameters, {"stride_length_s"}, "without chunk_length_s");
    return std::nullopt;
  }
  ChunkOptions options{seconds, seconds / 6, seconds / 6};
  if (const auto stride = parameters.find("stride_length_s"); stride != parameters.end() && !stride->is_null()) {
    const bool pair = stride->is_array() && stride->size() == 2;
    options.left = seconds_of(pair ? (*stride)[0] : *stride, "stride_length_s");
    options.right = seconds_of(pair ? (*stride)[1] : *stride, "stride_length_s");
  }
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
