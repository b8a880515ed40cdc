// SPDX-License-Identifier: Apache-2.0
// When each token of a text was said: heads of Whisper's decoder that look at the place in the sound which they write
// about are followed through it, by dynamic time warping.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace transom {

// The attention of one head, row-major [tokens, frames].
using HeadAttention = std::vector<float>;

// Each value becomes the median of `width` around it, the row mirrored at its ends; a row that is not longer than half
// of the width stays. `width` is odd.
void median_filter(std::span<float> row, int64_t width);

// The cheapest way through costs [rows, columns] from the first cell to the last, which goes on by a row, a column or
// both: the column at which it reaches each row.
std::vector<int64_t> warped_columns(const std::vector<double>& costs, int64_t rows, int64_t columns);

// The frame at which each of `tokens` tokens begins: the heads' attention normalised over the tokens, smoothed over
// frames, and its mean followed.
std::vector<int64_t> token_frames(std::vector<HeadAttention> heads, int64_t tokens, int64_t frames, int64_t width);

}  // namespace transom
