// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/output/subtitles.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

// 3661.5 as 01:01:01,500 of SubRip, or with a point as WebVTT has it.
std::string subtitle_time(double seconds, char point) {
  const auto all = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9) * 1000));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", all / 3'600'000, all / 60'000 % 60, all / 1000 % 60, point,
                     all % 1000);
}

// On one line, without what would end a subtitle or begin the next one.
std::string subtitle_text(const std::string& text, SubtitleForm form) {
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (space && (line.empty() || line.back() == ' ')) continue;
    line += space ? ' ' : c;
  }
  while (line.ends_with(' ')) line.pop_back();
  if (form == SubtitleForm::kSubRip) return line;
  std::string escaped;
  for (const char c : line) escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return escaped;
}

}  // namespace

std::string subtitles(const Transcription& transcription, SubtitleForm form, double seconds) {
  if (!transcription.has_times && transcription.segments.empty())
    fail("subtitles: the transcription has no times; return_timestamps gives them");
  std::string text = form == SubtitleForm::kSubRip ? "" : "WEBVTT\n\n";
  const char point = form == SubtitleForm::kSubRip ? ',' : '.';
  size_t number = 0;
  const auto add = [&](const TranscribedChunk& chunk) {
    const double begin = chunk.begin.value_or(0), end = std::max(begin, chunk.end.value_or(std::max(begin, seconds)));
    if (form == SubtitleForm::kSubRip) text += fmt::format("{}\n", ++number);
    text += fmt::format("{} --> {}\n{}\n\n", subtitle_time(begin, point), subtitle_time(end, point),
                        subtitle_text(chunk.text, form));
  };
  if (transcription.segments.empty()) std::for_each(transcription.chunks.begin(), transcription.chunks.end(), add);
  else std::for_each(transcription.segments.begin(), transcription.segments.end(), add);
  return text;
}

}  // namespace transom
