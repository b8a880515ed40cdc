// SPDX-License-Identifier: Apache-2.0
// Any bytes as a sound: the container, the decoder, one channel.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "inputs/audio/sound.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const Sound sound = parse_sound(std::as_bytes(std::span(data, size)), "fuzz.wav", 1 << 20);
    if (sound.samples.empty() || sound.sampling_rate < 1) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
