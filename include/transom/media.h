// SPDX-License-Identifier: Apache-2.0
// Pictures, sounds and videos in memory, as tasks return them.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace transom {

// A picture: `channels` values a pixel (1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha), row by row from the top
// left.
struct Picture {
  int64_t width = 0, height = 0, channels = 3;
  std::variant<std::vector<uint8_t>, std::vector<uint16_t>> values;  // of 8 or of 16 bits
};

// A sound: samples in [-1, 1], those of all channels at one moment beside each other.
struct Waveform {
  int64_t sampling_rate = 0, channels = 1;  // sampling_rate: moments a second
  std::vector<float> samples;
};

// Pictures of one size, one behind the other, and perhaps what is heard with them.
struct Video {
  double frames_a_second = 0;
  std::vector<Picture> frames;
  std::optional<Waveform> sound;
};

}  // namespace transom
