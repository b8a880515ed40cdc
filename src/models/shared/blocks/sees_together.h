// SPDX-License-Identifier: Apache-2.0
// Tokens of a text that see each other in both directions, in a decoder whose other tokens see what stands before them:
// the places of a picture (Gemma 3), a whole prompt (PaliGemma). Letters: B batch, T time.
#pragma once

#include "models/shared/decoder.h"

namespace transom {

struct SeesTogether {
  Tensor groups;               // i64 [B, T]: tokens of the same number above 0 see each other; empty: no inputs have it
  bool within_window = false;  // a layer's window hides what stands before it from them too
};

// i64 [B, T], an input of bodies that name it: not 0 where a row is given in place of a token.
inline constexpr char kGivenRows[] = "is_given";

// As inputs of a body, beside those that decoders have, and from them.
void set_sees_together(NamedTensors& inputs, const SeesTogether& together);
SeesTogether sees_together(const NamedTensors& inputs);

// The places of `is_one` [B, T] in runs: 1, 2, ... in each row, 0 where it is 0.
Tensor numbered_runs(const Tensor& is_one);

// What is added to the scores [B, 1, T, T] of a layer with a window (0: none), which says all. With a cache that has
// seen tokens before these it is refused: they would have had to be seen together.
Tensor bias_of(const SeesTogether& together, const DecoderInputs& in, int64_t window, const ForwardContext& context);

}  // namespace transom
