// SPDX-License-Identifier: Apache-2.0
// What a language model says of the tokens of answers.
#pragma once

#include "transom/model.h"

namespace transom {

// Of rows [R, T] of tokens, those from the second one on that are counted.
struct AnswerMask {
  Tensor ids;      // i64 [R, T]
  Tensor counted;  // f32 [R, T - 1]: 1 where the token behind is one of the answer
  Tensor labels;   // i64 [R, T - 1]: that token, or kIgnoredLabel
  Tensor lengths;  // f32 [R]: how many of the row are the answer's, a first one that nothing comes before included
};
// `completion_mask` i64 [R, T] is 1 for the tokens of answers.
AnswerMask answer_mask(const Tensor& ids, const Tensor& completion_mask);

// From logits [R, T, V]: log probabilities of the counted tokens, f32 [R, T - 1], 0 elsewhere.
Tensor log_probabilities(const Tensor& logits, const AnswerMask& mask);
// The sum of each row, f32 [R].
Tensor summed_rows(const Tensor& values);

// Numbers of the logits that predict tokens, f32 [R, T - 1] each; without gradients.
Tensor mean_logits(const Tensor& logits);
Tensor entropies_of_next(const Tensor& logits);
Tensor right_predictions(const Tensor& logits, const AnswerMask& mask);  // 1 where the most likely token comes
// log of the sum of the squares of the probabilities.
Tensor log_sums_of_squares(const Tensor& logits);

// log sigmoid(x), without overflow.
Tensor log_sigmoid(const Tensor& x);

// Row 0 or 1 of each pair: x [2 N, ...], in which pairs stand behind each other -> [N, ...].
Tensor of_pairs(const Tensor& x, int64_t which);

}  // namespace transom
