// SPDX-License-Identifier: Apache-2.0
// What the selective scan and its gradient are made of where a device does not compute them as a whole: products over
// chunks of tokens where a head has one rate, else sums that reach twice as far each time.
#pragma once

#include <utility>

#include "graph/ops/recurrence/recurrence.h"
#include "graph/ops/rules.h"

namespace transom {

// The most tokens of a chunk.
inline constexpr int64_t kScanChunk = 64;

// Checks x [rows..., H, P], dt, a, b, c, and the state [first, H, P, S] behind them.
void expect_scan(const Inference& in, size_t rows);

// [B, T, H, ...] -> [B, H, chunks, tokens, ...], with zeros behind the last token.
Tensor in_chunks(const Tensor& x, int64_t chunks, int64_t tokens);

// b or c [..., G, S] for each head: [..., H, S]
Tensor of_heads(const Tensor& x, int64_t heads);

// What is left at token t of what token s wrote: exp(reached_t - reached_s), `reached` [..., L] being the sum of the
// rates up to each token; 0 where `seen` [L, L] is false. -> [..., L, L], t before s.
Tensor decay_between(const Tensor& reached, const Tensor& seen);

// h_t = exp(rate_t) h_(t - 1) + v_t k_t, y_t = h_t q_t in chunks: v [B, T, H, P], rates [B, T, H], k and q
// [B, T, H, S], state [B, H, P, S].
Scanned chunked_scan(const Tensor& v, const Tensor& rates, const Tensor& k, const Tensor& q, const Tensor& state);

// All states h_0 ... h_T, [B, T + 1, H, P, S], of inputs [B, T, H, P, S] and decays [B, T, H, P or 1, S].
Tensor all_states(const Tensor& inputs, const Tensor& decays, const Tensor& state);

}  // namespace transom
