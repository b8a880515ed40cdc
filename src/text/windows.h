// SPDX-License-Identifier: Apache-2.0
// Truncation and padding of encodings.
#pragma once

#include "transom/tokenizer.h"

namespace transom::text {

// The part [begin, end) of an encoding.
Encoding part_of(const Encoding& encoding, size_t begin, size_t end);
// Keeps at most `length` tokens at the front (or the back, with `left`); the rest goes into overflowing, in windows
// that share `stride` tokens.
void truncate(Encoding& encoding, size_t length, size_t stride, bool left);

struct PaddingToken {
  int64_t id = 0, type_id = 0;
  std::string token = "[PAD]";
  bool left = false;
};
void pad(Encoding& encoding, size_t length, const PaddingToken& padding);

}  // namespace transom::text
