// SPDX-License-Identifier: Apache-2.0
// Several texts one behind the other in a row: packed samples, or a batch whose padding was taken out.
#pragma once

#include "transom/ops.h"

namespace transom {

struct TextsInRows {
  Tensor ranges;        // i64 [B, T, 2]: the first place of each token's text in its row, and that behind its last one
  Tensor positions;     // i64 [B, T]: the place of each token in its text
  Tensor numbers;       // [B, T]: as they were given
  int64_t longest = 0;  // of the texts, in tokens; 0: not known, as of a traced pass
};

// seq_idx [B, T]: the number of each token's text in its row, from 0 on in the order of the row. Throws, with the row,
// for other numbers in host memory.
TextsInRows texts_in_rows(const Tensor& seq_idx);

// Refuses texts that are longer than a model has positions for.
void expect_longest(const TextsInRows& texts, int64_t positions);

// The same texts, of which a token sees those alone that stand at most `window` places from it.
TextsInRows within_window(const TextsInRows& texts, int64_t window);

// The label that each token is to predict, [B, T]: the next one's of its row and text, -100 where there is none.
Tensor next_labels(const Tensor& labels, const TextsInRows& texts);

}  // namespace transom
