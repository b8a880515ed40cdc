// SPDX-License-Identifier: Apache-2.0
// Thoughts before an answer: how long they may be, and a constraint that holds behind them alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "work/generation/constraint/constraint.h"

namespace transom::constraint {

struct ThoughtRules {
  std::string open, close;        // the marks around the thoughts
  std::string forced_close;       // written where the budget is spent: the close, and what leads to the answer
  std::string answer_behind;      // stands between the close and the answer, where `rest` has to hold; empty: nothing
  bool begun = false;             // the text begins within the thoughts
  bool may_begin = true;          // else it thinks only if it has begun, or where nothing constrains it
  std::optional<int64_t> budget;  // tokens; none: any number
};

// `rest` (null: any text) holds for what stands behind the thoughts. Marks are found in what tokens say, special tokens
// by their names.
std::shared_ptr<const TokenConstraint> thoughts_first(const std::shared_ptr<const Vocabulary>& vocabulary,
                                                      const Tokenizer& tokenizer, const ThoughtRules& rules,
                                                      const std::shared_ptr<const TokenConstraint>& rest);

}  // namespace transom::constraint
