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
  std::optional<Stride> stride;
};

// A segment of the whole text, and when it was said.
struct WhisperSegment {
  std::string text;
  std::optional<double> begin, end;  // seconds; empty where the model gave none
  std::string language;              // by its name, "english"; empty where unknown
};

struct WhisperTextOptions {
  bool timestamps = false;
  double time_precision = 0.02;  // seconds a timestamp token
  int64_t positions = 1500;      // frames of the encoder
};

// The segments of the text; one where there are no timestamps. Joined, their texts are the whole.
std::vector<WhisperSegment> whisper_segments(const Tokenizer& tokenizer, const std::vector<WhisperPiece>& pieces,
                                             const WhisperTextOptions& options);

// Sequences of which each begins with what the one before ends with, as one.
TokenIds joined_where_alike(const std::vector<TokenIds>& sequences);

}  // namespace transom
