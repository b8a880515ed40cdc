// SPDX-License-Identifier: Apache-2.0
// Joining, cutting and padding of encodings.
#pragma once

#include "transom/tokenizer.h"

namespace transom::text {

void append_special(Encoding& encoding, int64_t id, std::string_view token, int64_t type_id);

// Appends `other`. Every overflowing part of one is joined with the other and its overflowing parts.
void merge(Encoding& encoding, const Encoding& other);

inline constexpr size_t kMostWindows = 16384;  // of one text

// Cuts to `length` tokens; the parts cut off become overflowing encodings that repeat `stride` tokens. Throws where
// they are more than kMostWindows.
void truncate(Encoding& encoding, size_t length, size_t stride, Side side, bool keep_overflowing);

// Cuts one encoding or two to `length` tokens together. An error if a strategy that cuts one of them cannot reach it.
void truncate(Encoding& first, Encoding* second, size_t length, const EncodeOptions& options, Side side);

// The same for the classes of Transformers that are written in Python: an encoding may lose all its tokens, and what is
// cut off is not kept.
void truncate_plainly(Encoding& first, Encoding* second, size_t length, const EncodeOptions& options, Side side);

// Pads with `id` (attention 0), and the overflowing parts likewise.
void pad(Encoding& encoding, size_t length, int64_t id, std::string_view token, Side side);

}  // namespace transom::text
