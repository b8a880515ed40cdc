// SPDX-License-Identifier: Apache-2.0
// From the chance of speech in each window of a sound to the parts in which somebody speaks, as silero-vad cuts them.
#pragma once

#include <cstdint>
#include <vector>

namespace transom {

struct SpeechPart {
  int64_t begin = 0, end = 0;  // samples
};

struct SpeechRule {
  int64_t sampling_rate = 16000, window = 512;  // samples of a window
  double threshold = 0.5;                       // from this chance on somebody speaks
  double quiet = 0.35;                          // below this one nobody does
  double least_speech_ms = 250, least_silence_ms = 100, padding_ms = 30;
  double most_speech_s = 0;  // longer parts are cut at their longest silence; 0: none is
};

std::vector<SpeechPart> speech_parts(const std::vector<double>& chances, int64_t samples, const SpeechRule& rule);

}  // namespace transom
