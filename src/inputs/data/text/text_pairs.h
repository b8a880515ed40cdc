// SPDX-License-Identifier: Apache-2.0
// Source and target texts, found as run_translation and run_summarization find them.
#pragma once

#include "transom/dataset.h"
#include "transom/training_arguments.h"

namespace transom {

struct TextPairColumns {
  size_t source = 0;
  std::optional<size_t> target;  // nothing in a file to predict
};

// The two columns: those that source_lang and target_lang (or text_column and summary_column) name, as keys of
// `translation` or as columns; else those whose names say it (`source` and `target`, `article` and `highlights` ...);
// else the two of text that there are. Of more it throws. Errors say which columns there are.
TextPairColumns text_pair_columns(const Dataset& data, const ScriptArguments& arguments);

}  // namespace transom
