// SPDX-License-Identifier: Apache-2.0
// Sounds as WAV files, by libsndfile. The same sound gives the same bytes.
#pragma once

#include <filesystem>
#include <string>

#include "transom/media.h"

namespace transom {

enum class WavSamples {
  kInt16,    // clipped to [-1, 1], rounded
  kFloat32,  // as they are
};

// The bytes of a WAV file. `where` names the sound in errors. Refuses a sound without samples, samples that are not
// finite, more than 1024 channels, rates that no reader takes, and what is more than the 4 GiB of such a file.
std::string encode_wav(const Waveform& sound, WavSamples samples = WavSamples::kInt16,
                       const std::string& where = "a sound");
// The file appears whole or not at all.
void write_wav(const std::filesystem::path& path, const Waveform& sound, WavSamples samples = WavSamples::kInt16);

}  // namespace transom
