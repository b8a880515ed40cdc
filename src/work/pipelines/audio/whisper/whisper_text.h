// SPDX-License-Identifier: Apache-2.0
// From Whisper's tokens to text: chunks that overlap are joined, timestamps become segments.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transom/generation.h"

namespace transom {

// What the model wrote for one piece of sound.
struct WhisperPiece {
  TokenIds tokens;
  // Of a chunk: its length, and what it shares with the chunk before and behind it, in seconds.
  struct Stride {
    double length, left, right;
  };
  std::optional<Stride> stride = std::nullopt;
  std::vector<float> times = {};  // seconds, with words: where in the sound each token is said
};

// A segment of the whole text, and when it was said.
struct WhisperSegment {
  std::string text;
  std::optional<double> begin, end;  // seconds; empty where the model gave none
  std::string language;              // by its name, "english"; empty where unknown
  struct Word {
    std::string text;
    double begin = 0, end = 0;
  };
  std::vector<Word> words = {};
};

struct WhisperTextOptions {
  bool timestamps = false, words = false;
  std::string language = {};     // that was told: whether words have spaces between them
  double time_precision = 0.02;  // seconds a timestamp token
  int64_t positions = 1500;      // frames of the encoder
};

// The segments of the text; one where there are no timestamps. Joined, their texts are the whole.
std::vector<WhisperSegment> whisper_segments(const Tokenizer& tokenizer, const std::vector<WhisperPiece>& pieces,
                                             const WhisperTextOptions& options);

// Sequences of which each begins with what the one before ends with, as one.
TokenIds joined_where_alike(const std::vector<TokenIds>& sequences);

// A token and when it is said.
struct TimedToken {
  int64_t token = 0;
  double begin = 0, end = 0;
  // Whether the other may be the same in a sound that is heard again: it does not come before.
  bool again(const TimedToken& other) const {
    return token == other.token && (begin < other.begin || (begin == other.begin && end <= other.end));
  }
};
std::vector<TimedToken> joined_where_said_alike(const std::vector<std::vector<TimedToken>>& sequences);

}  // namespace transom
