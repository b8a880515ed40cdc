// SPDX-License-Identifier: Apache-2.0
// Rows of language models: all text joined and cut into blocks of tokens, as the scripts' group_texts does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/numbers/mt19937.h"
#include "inputs/data/text/padding.h"
#include "work/train/tasks/task_data.h"

namespace transom {

// Before a model is loaded: refuses files without a column of text; what a run says of it.
std::string read_text_column(const TaskFiles& files, const ScriptArguments& script);

// The texts of `column`, as `encode` gives their tokens, joined and cut into rows of `block_size`. Joined are 1000 rows
// at a time, and the rest of each 1000 is left out, since the scripts' `datasets.map` does so. `argument` names the
// block's size in errors.
std::vector<Features> cut_into_blocks(const Dataset& data, size_t column, int64_t block_size, std::string_view argument,
                                      const std::function<Features(const std::string& text)>& encode);

// The data of a run with `rows` cut to max_train_samples and its like, which count blocks.
TrainingData first_rows(TrainingData data, std::optional<int64_t> limit);

// A generator for one batch: from the seed and the draw, well mixed.
Mt19937 generator_of(int64_t seed, uint64_t draw);

// Adds the perplexity to an evaluation that has a loss.
void add_perplexity(Metrics& metrics);

}  // namespace transom
