// SPDX-License-Identifier: Apache-2.0
// What the gated delta rule is made of where a device does not compute it as a whole. What token i writes is what it
// was given less what the tokens before it, of the same text, have written on its key: a linear system of unit lower
// triangular form for a chunk of tokens.
#pragma once

#include "graph/ops/recurrence/recurrence.h"
#include "graph/ops/rules.h"

namespace transom {

// Checks v [rows..., H, P], rates, beta, k, q, and the state [first, H, P, S] behind them.
void expect_delta_rule(const Inference& in, size_t rows);

// The inverse of I + x, of x [..., n, n] with zeros on and above the diagonal: of blocks on the diagonal, twice as
// large each time.
Tensor inverse_of_unit_lower(const Tensor& x);

// Of n tokens, of which token i sees itself and those tokens j <= i of its text that `seen` [n, n] says: keys
// [..., n, S], beta [..., n], `reached` [..., n] the sums of rates from the beginning of a text on.
struct DeltaSystem {
  Tensor decay;    // [..., n, n]: of what j has written, what is left at i
  Tensor inverse;  // [..., n, n]: of what tokens are given, what they write
};
DeltaSystem delta_system(const Tensor& keys, const Tensor& beta, const Tensor& reached, const Tensor& seen);

}  // namespace transom
