// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/audio/whisper/whisper_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "inputs/audio/whisper_languages.h"
#include "work/pipelines/audio/whisper/whisper_words.h"

namespace transom {
namespace {

double to_hundredths(double seconds) { return std::nearbyint(seconds * 100) / 100; }

// Goes through the tokens of all pieces and cuts them into segments, as Transformers' _decode_asr does: timestamps in
// what two chunks share are passed over, so that no segment ends there.
class Segmenter {
 public:
  Segmenter(const Tokenizer& tokenizer, const WhisperTextOptions& options) : tokenizer_(tokenizer), options_(options) {
    const std::vector<int64_t> special = tokenizer.all_special_ids();
    special_.insert(special.begin(), special.end());
    const auto id = [&](const char* token) { return tokenizer.token_to_id(token); };
    const std::optional<int64_t> last = id("<|notimestamps|>");
    timestamp_begin_ = last ? *last + 1 : std::numeric_limits<int64_t>::max();
    prompt_ = id("<|startofprev|>").value_or(-1);
    start_ = id("<|startoftranscript|>").value_or(-1);
  }

  void add(const WhisperPiece& piece) {
    TokenIds tokens = piece.tokens;
    std::vector<float> times = piece.times;
    if (!tokens.empty() && tokens[0] == prompt_) {
      const auto behind = std::find(tokens.begin(), tokens.end(), start_);
      if (!times.empty()) times.erase(times.begin(), times.begin() + (behind - tokens.begin()));
      tokens.erase(tokens.begin(), behind);
    }
    std::optional<int64_t> last;  // timestamp that is within the right stride
    double first = static_cast<double>(timestamp_begin_), highest = 0, before_highest = 0, earlier = 0;
    if (piece.stride) {
      offset_ -= piece.stride->left;
      if (piece.stride->left > 0)
        first = piece.stride->left / options_.time_precision + static_cast<double>(timestamp_begin_);
      if (piece.stride->right > 0)
        for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
          if (*token < timestamp_begin_) continue;
          if (last && seconds(*token) < piece.stride->length - piece.stride->right) break;
          last = *token;
        }
    }
    // Each token lasts from where the one before it is said to where it is said itself.
    const auto timed = [&](size_t i) {
      if (times.empty()) return TimedToken{tokens[i]};
      const double begin = i == 0 ? 0 : times[i - 1];
      return TimedToken{tokens[i], to_hundredths(begin + offset_), to_hundredths(times[i] + offset_)};
    };
    std::vector<TimedToken> current;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t token = tokens[i];
      if (special_.contains(token)) {
        take_language(token, current);
      } else if (token >= timestamp_begin_) {
        const double time = seconds(token);
        if (time < highest) {  // the next segment of a long sound
          if (i >= 2 && !(tokens[i - 1] >= timestamp_begin_ && tokens[i - 2] >= timestamp_begin_)) {
            earlier += options_.time_precision * static_cast<double>(options_.positions);
          } else {
            highest = before_highest;
            earlier += before_highest;
          }
        }
        before_highest = highest;
        highest = time;
        const double at = to_hundredths(time + offset_ + earlier);
        if (last && token >= *last) skip_ = true;
        else if (skip_ || (!pending_.empty() && static_cast<double>(token) < first)) skip_ = false;
        else if (!segment_.begin) segment_.begin = at;
        else if (at != *segment_.begin) {
          segment_.end = at;
          pending_.push_back(std::move(current));
          current.clear();
          close();
        }
      } else {
        current.push_back(timed(i));
      }
    }
    if (piece.stride) offset_ += piece.stride->length - piece.stride->right;
    const bool nothing =
        std::all_of(pending_.begin(), pending_.end(), [](const auto& tokens_of) { return tokens_of.empty(); });
    if (!current.empty()) pending_.push_back(std::move(current));
    else if (nothing) {
      segment_ = fresh();
      pending_.clear();
    }
  }

  std::vector<WhisperSegment> finish() {
    if (!pending_.empty()) close();
    return std::move(segments_);
  }

 private:
  double seconds(int64_t token) const {
    return static_cast<double>(token - timestamp_begin_) * options_.time_precision;
  }
  WhisperSegment fresh() const {
    return {.text = "", .begin = std::nullopt, .end = std::nullopt, .language = language_};
  }

  void close() {
    const std::vector<TimedToken> joined = joined_where_said_alike(pending_);
    TokenIds tokens;
    for (const TimedToken& each : joined) tokens.push_back(each.token);
    segment_.text = tokenizer_.decode(tokens);
    if (options_.words)
      for (const WhisperWord& word :
           whisper_words(tokenizer_, tokens, language_.empty() ? options_.language : language_))
        segment_.words.push_back({word.text, joined[word.first].begin, joined[word.last].end});
    segments_.push_back(std::move(segment_));
    segment_ = fresh();
    pending_.clear();
  }

  void take_language(int64_t token, std::vector<TimedToken>& current) {
    const std::string text = tokenizer_.decode({token});
    if (text.size() < 4) return;
    const std::string name = whisper_language(text.substr(2, text.size() - 4));
    if (name.empty()) return;
    if (!language_.empty() && name != language_ && !options_.timestamps) {
      pending_.push_back(std::move(current));
      current.clear();
      close();
    }
    segment_.language = language_ = name;
  }

  const Tokenizer& tokenizer_;
  const WhisperTextOptions& options_;
  std::set<int64_t> special_;
  int64_t timestamp_begin_, prompt_, start_;
  double offset_ = 0;
  bool skip_ = false;
  std::string language_;
  WhisperSegment segment_;
  std::vector<std::vector<TimedToken>> pending_;  // of chunks that are not joined yet
  std::vector<WhisperSegment> segments_;
};

template <typename Token, typename Alike>
std::vector<Token> joined(const std::vector<std::vector<Token>>& sequences, const Alike& alike) {
  if (sequences.empty()) return {};
  std::vector<Token> total, left = sequences[0];
  for (size_t s = 1; s < sequences.size(); ++s) {
    const std::vector<Token>& right = sequences[s];
    const size_t L = left.size(), R = right.size();
    double best = 0;
    size_t left_mid = L, right_mid = 0;  // nothing alike: one behind the other
    for (size_t i = 1; i < L + R; ++i) {
      const size_t left_begin = L > i ? L - i : 0, left_end = std::min(L, L + R - i), right_begin = i > L ? i - L : 0,
                   right_end = std::min(R, i);
      size_t matches = 0;
      for (size_t k = left_begin; k < left_end; ++k) matches += alike(left[k], right[right_begin + k - left_begin]);
      // Long overlaps are a little better than short ones that match as well.
      const double quality = static_cast<double>(matches) / static_cast<double>(i) + static_cast<double>(i) / 10000.0;
      if (matches > 1 && quality > best) {
        best = quality;
        left_mid = (left_begin + left_end) / 2;
        right_mid = (right_begin + right_end) / 2;
      }
    }
    total.insert(total.end(), left.begin(), left.begin() + static_cast<ptrdiff_t>(left_mid));
    left.assign(right.begin() + static_cast<ptrdiff_t>(right_mid), right.end());
  }
  total.insert(total.end(), left.begin(), left.end());
  return total;
}

}  // namespace

TokenIds joined_where_alike(const std::vector<TokenIds>& sequences) {
  return joined(sequences, [](int64_t left, int64_t right) { return left == right; });
}

std::vector<TimedToken> joined_where_said_alike(const std::vector<std::vector<TimedToken>>& sequences) {
  return joined(sequences, [](const TimedToken& left, const TimedToken& right) { return left.again(right); });
}

std::vector<WhisperSegment> whisper_segments(const Tokenizer& tokenizer, const std::vector<WhisperPiece>& pieces,
                                             const WhisperTextOptions& options) {
  Segmenter segmenter(tokenizer, options);
  for (const WhisperPiece& piece : pieces) segmenter.add(piece);
  return segmenter.finish();
}

}  // namespace transom
