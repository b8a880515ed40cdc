// SPDX-License-Identifier: Apache-2.0
// Recurrences over the tokens of texts, and the states that they keep. Letters: B rows, T tokens of a row, N tokens of
// any texts, H heads, P numbers of a head, S numbers of a state for each, G groups of heads, C channels, K taps, R
// places for states.
#pragma once

#include "graph/ir/operation.h"
#include "graph/ops/recurrence/state_places.h"

namespace transom {

namespace op {
extern const Operation &selective_scan, &paged_selective_scan, &paged_convolution, &gated_delta_rule,
    &paged_gated_delta_rule;
}

struct Scanned {
  Tensor y, state;
};

// h_t = exp(dt_t a) h_(t - 1) + dt_t x_t b_t, y_t = h_t c_t (Gu and Dao, "Mamba", 2023; Dao and Gu, "Transformers are
// SSMs", 2024), from h_0 = state on: x [B, T, H, P], dt [B, T, H], a [H, S] or [H, 1], b and c [B, T, G, S], state
// [B, H, P, S] -> y [B, T, H, P] and the last state. All of f32, or of one other floating-point type.
Scanned selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                       const Tensor& state);

// The same of tokens of any texts, one behind the other: x [N, H, P], dt [N, H], b and c [N, G, S], pool [R, H, P, S]
// -> y [N, H, P] and the pool. A token's bits do not depend on how the tokens of its text are cut into passes, where a
// device computes this as a whole.
Scanned paged_selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                             const StatePlaces& places);

// h_t = a h_(t - 1) + beta_t (v_t - a h_(t - 1) k_t) k_t' with a = exp(rate_t), y_t = h_t q_t (Yang et al., "Gated
// Delta Networks", 2024), from h_0 = state on: v [B, T, H, P], rates and beta [B, T, H], k and q [B, T, G, S], state
// [B, H, P, S] -> y [B, T, H, P] and the last state.
Scanned gated_delta_rule(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k, const Tensor& q,
                         const Tensor& state);
// The same of tokens of any texts: v [N, H, P], rates and beta [N, H], k and q [N, G, S], pool [R, H, P, S].
Scanned paged_gated_delta_rule(const Tensor& v, const Tensor& rates, const Tensor& beta, const Tensor& k,
                               const Tensor& q, const StatePlaces& places);

// y_n = sum over k of weight[:, K - 1 - k] x_(n - k), of the tokens of n's text: x [N, C], weight [C, K], pool
// [R, K - 1, C] with the last inputs of each text, the newest behind -> y [N, C] and the pool.
Scanned paged_convolution(const Tensor& x, const Tensor& weight, const StatePlaces& places);

}  // namespace transom
