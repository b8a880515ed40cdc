// SPDX-License-Identifier: Apache-2.0
#include "inputs/audio/write_wav.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/files/files.h"

namespace transom {
namespace {

// A file in memory as libsndfile writes it: it goes back to the header for the sizes.
struct WavFile {
  std::string bytes;
  int64_t place = 0;

  static WavFile& of(void* user) { return *static_cast<WavFile*>(user); }
  static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); }
  static sf_count_t tell(void* user) { return of(user).place; }
  static sf_count_t read(void* to, sf_count_t count, void* user) {
    WavFile& file = of(user);
    const int64_t taken = std::clamp<int64_t>(count, 0, std::max<int64_t>(length(user) - file.place, 0));
    std::copy_n(file.bytes.data() + file.place, taken, static_cast<char*>(to));
    file.place += taken;
    return taken;
  }
  static sf_count_t seek(sf_count_t offset, int from, void* user) {
    const int64_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? of(user).place : length(user);
    if (base + offset < 0) return -1;
    return of(user).place = base + offset;
  }
  static sf_count_t write(const void* from, sf_count_t count, void* user) {
    WavFile& file = of(user);
    try {  // an exception must not pass through libsndfile
      const auto end = static_cast<size_t>(file.place + count);
      if (end > file.bytes.size()) file.bytes.resize(end);
    } catch (const std::bad_alloc&) {
      return 0;
    }
    std::copy_n(static_cast<const char*>(from), count, file.bytes.data() + file.place);
    file.place += count;
    return count;
  }
};

void expect_writable(const Waveform& sound, WavSamples samples, const std::string& where) {
  if (sound.channels < 1 || sound.channels > 1024 || sound.sampling_rate < 1 || sound.sampling_rate > 10'000'000)
    fail("{}: expected 1 to 1024 channels at 1 to 10000000 samples a second, found {} at {}", where, sound.channels,
         sound.sampling_rate);
  if (sound.samples.empty() || sound.samples.size() % static_cast<size_t>(sound.channels) != 0)
    fail("{}: expected samples of {} channels, found {} samples", where, sound.channels, sound.samples.size());
  constexpr size_t kMostBytes = (size_t{1} << 32) - 4096;  // sizes have 32 bits, and the header is among them
  if (sound.samples.size() > kMostBytes / (samples == WavSamples::kInt16 ? 2 : 4))
    fail("{}: {} samples are more than a WAV file holds; cut the sound into parts", where, sound.samples.size());
  if (!std::all_of(sound.samples.begin(), sound.samples.end(), [](float x) { return std::isfinite(x); }))
    fail("{}: expected finite samples, found infinite ones or NaN", where);
}

// True if all were written.
bool write_rounded(SNDFILE* file, const std::vector<float>& samples, int64_t channels) {
  std::vector<int16_t> block(std::min(samples.size(), static_cast<size_t>(channels) * 4096));
  for (size_t first = 0; first < samples.size(); first += block.size()) {
    const size_t count = std::min(block.size(), samples.size() - first);
    for (size_t i = 0; i < count; ++i)
      block[i] = static_cast<int16_t>(std::lrint(std::clamp(samples[first + i], -1.0f, 1.0f) * 32767));
    if (sf_write_short(file, block.data(), static_cast<sf_count_t>(count)) != static_cast<sf_count_t>(count))
      return false;
  }
  return true;
}

bool write_exactly(SNDFILE* file, const std::vector<float>& samples) {
  const auto count = static_cast<sf_count_t>(samples.size());
  return sf_write_float(file, samples.data(), count) == count;
}

}  // namespace

std::string encode_wav(const Waveform& sound, WavSamples samples, const std::string& where) {
  expect_writable(sound, samples, where);
  SF_INFO info{};
  info.samplerate = static_cast<int>(sound.sampling_rate);
  info.channels = static_cast<int>(sound.channels);
  info.format = SF_FORMAT_WAV | (samples == WavSamples::kInt16 ? SF_FORMAT_PCM_16 : SF_FORMAT_FLOAT);
  SF_VIRTUAL_IO functions{WavFile::length, WavFile::seek, WavFile::read, WavFile::write, WavFile::tell};
  WavFile memory;
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(sf_open_virtual(&functions, SFM_WRITE, &info, &memory), sf_close);
  if (!file) fail("{}: cannot be written as WAV: {}", where, sf_strerror(nullptr));
  sf_command(file.get(), SFC_SET_ADD_PEAK_CHUNK, nullptr, SF_FALSE);  // which holds the time of day
  const bool whole = samples == WavSamples::kInt16 ? write_rounded(file.get(), sound.samples, sound.channels)
                                                   : write_exactly(file.get(), sound.samples);
  if (!whole) fail("{}: cannot be written as WAV: {}", where, sf_strerror(file.get()));
  if (sf_close(file.release()) != SF_ERR_NO_ERROR) fail("{}: cannot be written as WAV: the file is not whole", where);
  return std::move(memory.bytes);
}

void write_wav(const std::filesystem::path& path, const Waveform& sound, WavSamples samples) {
  write_file(path, encode_wav(sound, samples, path.string()));
}

}  // namespace transom
