// SPDX-License-Identifier: Apache-2.0
// Whether processes that have the same parameters have the same numbers: broken memory and broken links change them
// without a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/sharding/model_sharding.h"
#include "transom/model.h"

namespace transom {

// What one process has of a parameter: which part of which, and the CRC-32 of its bytes.
struct PartCopy {
  std::string part;
  uint32_t check_sum = 0;
};

// Of the first part whose copies differ: a sentence with its name and the ranks that stand against most others, or all
// that have it where no value is that of most. Nothing where all copies are equal. `of_ranks`: by rank.
std::optional<std::string> find_different_copies(const std::vector<std::vector<PartCopy>>& of_ranks);

// Compares the parameters of the processes. All call it together, with the number of updates so far; each throws an
// Error of kind kDevice where copies differ. Nothing where there is one process. `sharding`: null where each process
// has the whole model.
void expect_equal_copies(const Model& model, ModelSharding* sharding, int64_t updates);

// Compares, before a run, the weights that each process would read its parts of: their types, and how each begins. All
// call it together; each throws an Error of kind kUsage where another process has others.
void expect_equal_weights(const Model& model);

}  // namespace transom
