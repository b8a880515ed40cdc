// SPDX-License-Identifier: Apache-2.0
// Rows of tokens and their batches, padded to one length.
#pragma once

#include "transom/batch.h"

namespace transom {

// The length that rows of at most `longest` tokens are padded to.
int64_t padded_length(int64_t longest, const PaddingOptions& options);

PaddedRows pad(std::span<const std::vector<int64_t>* const> rows, int64_t length, int64_t fill, bool left);

// Fills the batch up to so many rows with copies of its last one, whose labels do not count. False, and nothing done,
// where they would be seen all the same: labels that are numbers, positions, rows that are compared with each other.
bool fill_up(Batch& batch, int64_t rows);

}  // namespace transom
