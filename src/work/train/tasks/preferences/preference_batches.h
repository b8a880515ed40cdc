// SPDX-License-Identifier: Apache-2.0
// Batches of preferences, and what a reference says of them where that is computed before a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transom/trainer.h"
#include "work/train/step/text_places.h"
#include "work/train/tasks/preferences/preference_tokens.h"

namespace transom {

// Rows of one file, as they are trained on. `pairs`: rows stand in twos, chosen and rejected, each two of which is one
// row of a batch.
struct HeldAnswers {
  struct Answer {
    PromptedTokens tokens;
    std::vector<int64_t> other;  // KTO: the same prompt with the answer of another row; empty: none
    size_t other_prompt = 0;
    std::optional<float> value;  // KTO: 1 for a good answer, 0 for a bad one; pairs: the margin, of the chosen one
    std::optional<float> said, said_of_other;  // log probabilities under the reference
  };
  std::vector<Answer> answers;
  bool pairs = true;

  int64_t rows() const { return static_cast<int64_t>(answers.size()) / (pairs ? 2 : 1); }
};

// Inputs of the objectives, by the names that these give.
Batch batch_of(const HeldAnswers& held, const std::vector<int64_t>& rows, const PaddingOptions& padding);
TrainingData answer_data(std::shared_ptr<const HeldAnswers> held, const PaddingOptions& padding);

// Completes `held` with log probabilities under the model as it is, `at_once` rows of the model at a time; of several
// processes each computes a part.
void compute_reference(HeldAnswers& held, const Model& model, const Computing& computing, const PaddingOptions& padding,
                       int64_t at_once, std::optional<double> length_alpha, BatchPadding of_batches);

}  // namespace transom
