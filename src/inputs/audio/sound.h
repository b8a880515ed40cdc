// SPDX-License-Identifier: Apache-2.0
// Sounds from files: WAV, FLAC, OGG (Vorbis, Opus) and MP3, read by libsndfile, as one channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace transom {

struct Sound {
  std::vector<float> samples;  // in [-1, 1], one channel
  int64_t sampling_rate = 0;   // samples a second
  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(sampling_rate); }
};

// Reads the file, the mean of its channels. Refuses what is no sound, and sounds of more than `most_samples`.
Sound read_sound(const std::filesystem::path& path, int64_t most_samples = int64_t{1} << 30);

// The same from bytes; `where` is for messages.
Sound parse_sound(std::span<const std::byte> bytes, const std::string& where, int64_t most_samples = int64_t{1} << 30);

// Whether the name ends as those of sound files do.
bool is_sound_name(const std::filesystem::path& path);

// The sound at another sampling rate, low-passed by a windowed sinc: the results of torchaudio.functional.resample with
// its defaults (a Hann window over 6 zero crossings, 0.99 of the band).
Sound resampled(const Sound& sound, int64_t sampling_rate);

}  // namespace transom
