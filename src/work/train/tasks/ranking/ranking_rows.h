// SPDX-License-Identifier: Apache-2.0
// Rows of queries and documents, and their batches.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/dataset.h"
#include "transom/trainer.h"
#include "work/train/tasks/ranking/ranking_loss.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {

struct RankingRow {
  std::string query;
  std::vector<std::string> documents;
  std::vector<float> labels;  // empty where the loss takes none
};

// All rows of a file. Refuses, with the file and the row, what the loss does not take. `what` says what was read.
std::vector<RankingRow> read_ranking_rows(const Dataset& data, const RankingLossRecord& loss, std::string* what);

// Batches hold each pair once: input_ids ... [P, T], and `places` [B, M], the pair of each document of a row, beside
// `listed` and `labels`; of pairs with classes `labels` alone. `negatives`: as RankingLoss::negatives_of_batch.
TrainingData ranking_data(std::vector<RankingRow> rows, const RankingLossRecord& loss, std::optional<int64_t> negatives,
                          int64_t seed, std::shared_ptr<const TextEncoder> encoder);

}  // namespace transom
