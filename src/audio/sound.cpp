// SPDX-License-Identifier: Apache-2.0
#include "audio/sound.h"

#include <sndfile.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

#include "base/error.h"

namespace transom {

Sound read_sound(const std::filesystem::path& path, int64_t most_samples) {
  if (!std::filesystem::is_regular_file(path)) fail("{}: there is no such file", path.string());
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(sf_open(path.c_str(), SFM_READ, &info), sf_close);
  if (!file) fail("{}: expected a sound (WAV, FLAC, OGG, MP3), but: {}", path.string(), sf_strerror(nullptr));
  if (info.channels < 1 || info.channels > 1024 || info.samplerate < 1 || info.samplerate > 10'000'000)
    fail("{}: a sound of {} channels at {} samples a second cannot be read", path.string(), info.channels,
         info.samplerate);

  // What a header says of the length is not believed: memory grows with what is really there.
  constexpr int64_t kFrames = 1 << 15;
  const int channels = info.channels;
  Sound sound;
  sound.sampling_rate = info.samplerate;
  std::vector<float> block(static_cast<size_t>(kFrames * channels));
  while (true) {
    const int64_t frames = sf_readf_float(file.get(), block.data(), kFrames);
    if (frames <= 0) break;
    if (static_cast<int64_t>(sound.samples.size()) + frames > most_samples)
      fail("{}: the sound is longer than {} samples; cut it into parts", path.string(), most_samples);
    for (int64_t frame = 0; frame < frames; ++frame) {
      float sum = 0;
      for (int channel = 0; channel < channels; ++channel)
        sum += block[static_cast<size_t>(frame * channels + channel)];
      sound.samples.push_back(sum / static_cast<float>(channels));
    }
  }
  if (sf_error(file.get()) != SF_ERR_NO_ERROR)
    fail("{}: the sound cannot be decoded: {}", path.string(), sf_strerror(file.get()));
  if (sound.samples.empty()) fail("{}: the sound is empty", path.string());
  return sound;
}

bool is_sound_name(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"})
    if (end == known) return true;
  return false;
}

}  // namespace transom
