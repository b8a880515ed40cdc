// SPDX-License-Identifier: Apache-2.0
// Exact match and F1 of answers (Rajpurkar et al., 2016; version 2: 2018), in per cent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "work/train/files/trainer_state.h"

namespace transom {

// Lower case, without punctuation, articles and further spaces.
std::string normalized_answer(std::string_view text);

struct AnswerPair {
  std::string prediction;
  std::vector<std::string> answers;  // none: the question has no answer
};
// exact_match and f1; the best over the answers of each question.
LogRecord squad_metrics(const std::vector<AnswerPair>& pairs);
// exact, f1 and total, the same of questions with and without an answer (HasAns_, NoAns_), and best_exact, best_f1.
LogRecord squad_v2_metrics(const std::vector<AnswerPair>& pairs);

}  // namespace transom
