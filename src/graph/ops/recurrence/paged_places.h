// SPDX-License-Identifier: Apache-2.0
// Tokens of any texts whose states lie in a pool (StatePlaces), for operations that are put together from others.
#pragma once

#include "graph/ops/rules.h"

namespace transom {

// Inputs `first` and the next are places of states, i64 [tokens].
void expect_places(const Inference& in, size_t first, int64_t tokens);

// For each token the last one before it in the pass that leaves its state where this one begins, or -1. [N]
Tensor tokens_before(const Tensor& from, const Tensor& to);

Tensor is_there(const Tensor& index);  // whether it is 0 or more
Tensor at_least_zero(const Tensor& index);

// x [N, ...] where the condition [N] holds, else y, or zeros.
Tensor rows_where(const Tensor& condition, const Tensor& x, const Tensor& y);
Tensor rows_where(const Tensor& condition, const Tensor& x);

// Rows of x [R, ...] at the indices; zeros where these are negative.
Tensor rows_at(const Tensor& x, const Tensor& index);

}  // namespace transom
