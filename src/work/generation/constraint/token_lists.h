// SPDX-License-Identifier: Apache-2.0
// Fewer tokens than any, or than another constraint leaves: those of a list, and none that ends a sequence which is not
// to come.
#pragma once

#include <memory>
#include <vector>

#include "transom/engine.h"

namespace transom::constraint {

struct TokenLists {
  std::vector<int64_t> allowed;                 // empty: all
  std::vector<std::vector<int64_t>> forbidden;  // none of them empty; looked for in what is written
  bool empty() const { return allowed.empty() && forbidden.empty(); }
};

// Where nothing else is left the text ends: one of `ends` may come. `rest` null: any token.
std::shared_ptr<const TokenConstraint> by_token_lists(std::shared_ptr<const TokenLists> lists,
                                                      std::vector<int64_t> ends,
                                                      const std::shared_ptr<const TokenConstraint>& rest);

}  // namespace transom::constraint
