// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/sound.h"

#include <sndfile.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {

namespace {

using SoundFile = std::unique_ptr<SNDFILE, int (*)(SNDFILE*)>;

Sound decoded(const SoundFile& file, const SF_INFO& info, const std::string& where, int64_t most_samples) {
  if (!file) fail("{}: expected a sound (WAV, FLAC, OGG, MP3), but: {}", where, sf_strerror(nullptr));
  if (info.channels < 1 || info.channels > 1024 || info.samplerate < 1 || info.samplerate > 10'000'000)
    fail("{}: a sound of {} channels at {} samples a second cannot be read", where, info.channels, info.samplerate);

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
      fail("{}: the sound is longer than {} samples; cut it into parts", where, most_samples);
    for (int64_t frame = 0; frame < frames; ++frame) {
      float sum = 0;
      for (int channel = 0; channel < channels; ++channel)
        sum += block[static_cast<size_t>(frame * channels + channel)];
      sound.samples.push_back(sum / static_cast<float>(channels));
    }
  }
  if (sf_error(file.get()) != SF_ERR_NO_ERROR)
    fail("{}: the sound cannot be decoded: {}", where, sf_strerror(file.get()));
  if (sound.samples.empty()) fail("{}: the sound is empty", where);
  return sound;
}

// Bytes in memory as libsndfile reads a file.
struct Reader {
  std::span<const std::byte> bytes;
  int64_t place = 0;

  static Reader& of(void* user) { return *static_cast<Reader*>(user); }
  static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); }
  static sf_count_t tell(void* user) { return of(user).place; }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t seek(sf_count_t offset, int from, void* user) {
    Reader& reader = of(user);
    const int64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? reader.place : length(user);
    int64_t place = 0;
    if (__builtin_add_overflow(base, int64_t{offset}, &place) || place < 0 || place > length(user)) return -1;
    return reader.place = place;
  }
  static sf_count_t read(void* to, sf_count_t count, void* user) {
    Reader& reader = of(user);
    const int64_t taken = std::clamp<int64_t>(count, 0, length(user) - reader.place);
    std::copy_n(reader.bytes.data() + reader.place, taken, static_cast<std::byte*>(to));
    reader.place += taken;
    return taken;
  }
};

}  // namespace

Sound read_sound(const std::filesystem::path& path, int64_t most_samples) {
  if (!file_exists(path)) fail("{}: there is no such file", path.string());
  SF_INFO info{};
  const SoundFile file(sf_open(path.c_str(), SFM_READ, &info), sf_close);
  return decoded(file, info, path.string(), most_samples);
}

Sound parse_sound(std::span<const std::byte> bytes, const std::string& where, int64_t most_samples) {
  SF_INFO info{};
  SF_VIRTUAL_IO functions{Reader::length, Reader::seek, Reader::read, Reader::write, Reader::tell};
  Reader reader{bytes};
  const SoundFile file(sf_open_virtual(&functions, SFM_READ, &info, &reader), sf_close);
  return decoded(file, info, where, most_samples);
}

bool is_sound_name(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"})
    if (end == known) return true;
  return false;
}

}  // namespace transom
