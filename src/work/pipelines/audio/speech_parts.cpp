// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/speech_parts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace transom {
namespace {

constexpr double kSilenceToCutAt = 98;  // ms

class SpeechCutter {
 public:
  explicit SpeechCutter(const SpeechRule& rule) : rule_(rule), rate_(static_cast<double>(rule.sampling_rate)) {
    const double pads = 2 * rate_ * rule.padding_ms / 1000;
    if (rule.most_speech_s > 0) most_ = rate_ * rule.most_speech_s - static_cast<double>(rule.window) - pads;
  }

  void take(double chance, int64_t sample) {
    if (chance >= rule_.threshold && silent_from_ > 0) end_silence(sample);
    if (chance >= rule_.threshold && begin_ < 0) {
      begin_ = sample;
      return;
    }
    if (begin_ >= 0 && static_cast<double>(sample - begin_) > most_ && !cut_long(sample)) return;
    if (chance >= rule_.quiet || begin_ < 0) return;
    if (silent_from_ == 0) silent_from_ = sample;
    if (static_cast<double>(sample - silent_from_) < rate_ * rule_.least_silence_ms / 1000) return;
    if (is_long_enough(silent_from_)) parts_.push_back({begin_, silent_from_});
    begin_ = -1, silent_from_ = 0;
    silences_.clear();
  }

  std::vector<SpeechPart> finish(int64_t samples) {
    if (begin_ >= 0 && is_long_enough(samples)) parts_.push_back({begin_, samples});
    return std::move(parts_);
  }

 private:
  bool is_long_enough(int64_t end) const {
    return static_cast<double>(end - begin_) > rate_ * rule_.least_speech_ms / 1000;
  }
  void end_silence(int64_t sample) {
    const int64_t duration = sample - silent_from_;
    if (static_cast<double>(duration) > rate_ * kSilenceToCutAt / 1000) silences_.emplace_back(silent_from_, duration);
    silent_from_ = 0;
  }
  // Ends a part that is too long at its longest silence, or here; whether the window still counts for what follows.
  bool cut_long(int64_t sample) {
    if (silences_.empty()) {
      parts_.push_back({begin_, sample});
      begin_ = -1, silent_from_ = 0;
      return false;
    }
    const auto [end, duration] = *std::max_element(silences_.begin(), silences_.end(),
                                                   [](const auto& a, const auto& b) { return a.second < b.second; });
    parts_.push_back({begin_, end});
    begin_ = end + duration;
    silent_from_ = 0;
    silences_.clear();
    return true;
  }

  const SpeechRule& rule_;
  double rate_, most_ = std::numeric_limits<double>::infinity();
  int64_t begin_ = -1;                                 // of the part that is open; -1: none
  int64_t silent_from_ = 0;                            // in an open part; 0: not silent
  std::vector<std::pair<int64_t, int64_t>> silences_;  // of the open part: where, how long
  std::vector<SpeechPart> parts_;
};

}  // namespace

std::vector<SpeechPart> speech_parts(const std::vector<double>& chances, int64_t samples, const SpeechRule& rule) {
  SpeechCutter cutter(rule);
  for (size_t i = 0; i < chances.size(); ++i) cutter.take(chances[i], rule.window * static_cast<int64_t>(i));
  std::vector<SpeechPart> parts = cutter.finish(samples);
  const double pad = static_cast<double>(rule.sampling_rate) * rule.padding_ms / 1000;
  const auto padded_begin = [&](int64_t begin) {
    return static_cast<int64_t>(std::max(0.0, static_cast<double>(begin) - pad));
  };
  const auto padded_end = [&](int64_t end) {
    return static_cast<int64_t>(std::min(static_cast<double>(samples), static_cast<double>(end) + pad));
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0) parts[i].begin = padded_begin(parts[i].begin);
    if (i + 1 == parts.size()) {
      parts[i].end = padded_end(parts[i].end);
      break;
    }
    SpeechPart& next = parts[i + 1];
    const int64_t silence = next.begin - parts[i].end;
    if (static_cast<double>(silence) < 2 * pad) {  // they share a short silence
      parts[i].end += silence / 2;
      next.begin = std::max<int64_t>(0, next.begin - silence / 2);
    } else {
      parts[i].end = padded_end(parts[i].end);
      next.begin = padded_begin(next.begin);
    }
  }
  return parts;
}

}  // namespace transom
