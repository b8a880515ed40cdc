// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/preference_batches.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/distributed/process_group.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/preferences/objectives/dpo_objective.h"
#include "work/train/tasks/preferences/reference_policy.h"

namespace transom {
namespace {

Features features_of(const std::vector<int64_t>& ids, size_t prompt) {
  Features features;
  features.sequences["input_ids"] = ids;
  std::vector<int64_t>& mask = features.sequences["completion_mask"];
  mask.assign(ids.size(), 1);
  std::fill_n(mask.begin(), std::min(prompt, ids.size()), 0);
  return features;
}

std::vector<const HeldAnswers::Answer*> chosen_answers(const HeldAnswers& held, const std::vector<int64_t>& rows) {
  std::vector<const HeldAnswers::Answer*> answers;
  for (const int64_t row : rows)
    for (int64_t k = 0; k < (held.pairs ? 2 : 1); ++k)
      answers.push_back(&held.answers[static_cast<size_t>(held.pairs ? 2 * row + k : row)]);
  return answers;
}

}  // namespace

Batch batch_of(const HeldAnswers& held, const std::vector<int64_t>& rows, const PaddingOptions& padding) {
  const std::vector<const HeldAnswers::Answer*> answers = chosen_answers(held, rows);
  std::vector<Features> features, others;
  for (const auto* answer : answers) {
    features.push_back(features_of(answer->tokens.ids, answer->tokens.prompt));
    if (!answer->other.empty()) others.push_back(features_of(answer->other, answer->other_prompt));
  }
  Batch batch = collate(features, padding);
  if (!others.empty())
    for (auto& [name, values] : collate(others, padding).sequences) batch.sequences["KL_" + name] = std::move(values);
  const auto add = [&](const char* name, std::optional<float> HeldAnswers::Answer::*field) {
    FloatRows values;
    for (const auto* answer : answers)
      if (answer->*field) values.values.push_back(*(answer->*field));
    if (values.values.empty()) return;
    values.shape = {static_cast<int64_t>(values.values.size())};
    batch.arrays[name] = std::move(values);
  };
  add(held.pairs ? "margin" : "label", &HeldAnswers::Answer::value);
  add("ref_logps", &HeldAnswers::Answer::said);
  add("ref_KL_logps", &HeldAnswers::Answer::said_of_other);
  return batch;
}

TrainingData answer_data(std::shared_ptr<const HeldAnswers> held, const PaddingOptions& padding) {
  TrainingData data;
  data.rows = held->rows();
  for (int64_t row = 0; row < data.rows; ++row) {
    size_t longest = 0;
    for (const auto* answer : chosen_answers(*held, {row})) longest = std::max(longest, answer->tokens.ids.size());
    data.lengths.push_back(static_cast<int64_t>(longest));
  }
  data.batch = [held = std::move(held), padding](const std::vector<int64_t>& rows) {
    return batch_of(*held, rows, padding);
  };
  return data;
}

void compute_reference(HeldAnswers& held, const Model& model, const Computing& computing, const PaddingOptions& padding,
                       int64_t at_once, std::optional<double> length_alpha, BatchPadding of_batches) {
  const NoGradient only_numbers;
  ProcessGroup* group = process_group();
  const int64_t ranks = group ? group->size() : 1, rank = group ? group->rank() : 0;
  const auto rows_of = [&](int64_t number) {
    std::vector<int64_t> rows;
    for (int64_t row = number * at_once; row < std::min((number + 1) * at_once, held.rows()); ++row)
      rows.push_back(row);
    return rows;
  };
  const ReferencePolicy reference(model, ReferencePolicy::During::kEvaluation);
  const auto values_of = [&](const NamedTensors& inputs, const std::string& prefix) {
    const AnswerMask mask = answer_mask(inputs.at(prefix + "input_ids"), inputs.at(prefix + "completion_mask"));
    const AnswerScores said = scores_of_answers(model, policy_inputs(inputs, prefix), {.computing = computing},
                                                AskedScores::kNone, &reference);
    return dpo_log_probabilities(said, mask, length_alpha).to_vector<float>();
  };
  const int64_t batches = (held.rows() + at_once - 1) / at_once;
  const bool others = !held.answers.empty() && !held.answers[0].other.empty();
  std::vector<float> mine;
  for (int64_t number = rank; number < batches; number += ranks) {
    const NamedTensors inputs =
        to_inputs(with_few_lengths(batch_of(held, rows_of(number), padding), of_batches), model, of_batches);
    for (const char* prefix : {"", "KL_"}) {
      if (*prefix && !others) continue;
      const std::vector<float> values = values_of(inputs, prefix);
      mine.insert(mine.end(), values.begin(), values.end());
    }
  }
  std::vector<std::string> all{std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(float))};
  if (group) all = group->all_gather(all[0]);
  std::vector<size_t> read(all.size(), 0);
  for (int64_t number = 0; number < batches; ++number) {
    const auto of_rank = static_cast<size_t>(number % ranks);
    std::vector<HeldAnswers::Answer*> answers;
    for (const auto* answer : chosen_answers(held, rows_of(number)))
      answers.push_back(const_cast<HeldAnswers::Answer*>(answer));
    for (std::optional<float> HeldAnswers::Answer::*field :
         {&HeldAnswers::Answer::said, &HeldAnswers::Answer::said_of_other}) {
      if (field == &HeldAnswers::Answer::said_of_other && !others) continue;
      for (HeldAnswers::Answer* answer : answers) {
        if (read[of_rank] + sizeof(float) > all[of_rank].size())
          fail(ErrorKind::kDevice, "precompute_ref_log_probs: another process sent too few values");
        float value = 0;
        std::memcpy(&value, all[of_rank].data() + read[of_rank], sizeof(float));
        read[of_rank] += sizeof(float);
        answer->*field = value;
      }
    }
  }
}

}  // namespace transom
