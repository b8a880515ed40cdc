// SPDX-License-Identifier: Apache-2.0
// What was said and when as subtitles, SubRip (.srt) or WebVTT (.vtt).
#pragma once

#include <string>

#include "transom/tasks.h"

namespace transom {

enum class SubtitleForm { kSubRip, kWebVtt };

// One subtitle a segment, or a chunk where there are no segments; what has no end lasts to that of the sound, or, where
// `seconds` is not known, begins and ends at once. Refuses a transcription without times.
std::string subtitles(const Transcription& transcription, SubtitleForm form, double seconds = 0);

}  // namespace transom
