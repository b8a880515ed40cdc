// SPDX-License-Identifier: Apache-2.0
// Ring attention (Liu et al., "Ring attention with blockwise transformers for near-infinite context", 2023): each
// process has a stretch of the queries and one of the keys and values. Blocks of keys and values travel while the block
// before them is computed, so that a process holds its own and two more, and results are joined by the log-sum-exp of
// the scores. No process ever has all keys.
//
// With a causal mask later stretches see more. The processes that would have nothing to do then take the queries of
// others, and send back what these see of their own keys (Li et al., "DistFlashAttn", 2023), so that all compute the
// same number of pairs, as they do where stretches are dealt in zigzag. The places of a sequence stay in their order,
// which all that is not attention relies on, and messages are half as many.
#pragma once

#include <optional>
#include <vector>

#include "graph/ops/attention/partial_attention.h"
#include "models/sharding/rewrite/reshard.h"

namespace transom {

// Of the processes along one axis of the mesh, of which this one is `process`.
struct Ring {
  MeshAxis axis;
  int64_t process = 0;
  std::vector<Range> queries, keys;  // the stretch of each process
};

// What this process has: q [B, its queries, H, d], k and v [B, its keys, G, d or e]; the bias, if any, of its queries
// (or of all alike) and of all keys. `options.causal`: there are as many keys as queries, cut alike.
struct RingOperands {
  Tensor q, k, v, bias;
  AttentionOptions options;
  PartialDropout dropout;  // its place is that of this process's first row and head, and of query and key 0
};

class RingAttention {
 public:
  RingAttention(Resharder& resharder, Ring ring, RingOperands operands);

  // The attention of this process's queries to all keys.
  PartialAttention forward();
  // The gradients for q, k and v of this process, given the result for its queries.
  PartialAttentionGradients backward(const PartialAttention& result, const Tensor& dy);

 private:
  // What process `from` gives to the one `step` places behind it: nothing, its keys, or its first `rows` queries.
  enum class Given { kNothing, kKeys, kQueries };
  Given given(int64_t from, int64_t step) const;
  int64_t helped_rows(int64_t process, int64_t step) const;
  int64_t first_own_row(int64_t step) const;
  std::vector<int64_t> steps() const;  // at which something travels
  bool sees(int64_t queries, int64_t keys) const;
  int64_t processes() const { return static_cast<int64_t>(ring_.queries.size()); }
  int64_t before(int64_t step) const { return (ring_.process + processes() - step) % processes(); }

  Shape rows_of(const Tensor& like, int64_t rows, int64_t width) const;
  Tensor send(const Tensor& x, int64_t step, const Shape& shape, const Tensor& after);
  void note_nothing(const Tensor& received);
  Tensor with_nothing(const Tensor& x) const;
  // Of this process's queries, or of all alike, to the keys of that process.
  Tensor bias_of(int64_t keys) const;
  PartialAttention pair(const Tensor& q, int64_t queries, int64_t row, const Tensor& k, const Tensor& v,
                        int64_t keys) const;
  PartialAttentionGradients pair_gradients(const Tensor& q, int64_t queries, int64_t row, const Tensor& k,
                                           const Tensor& v, int64_t keys, const PartialAttention& statistics,
                                           const Tensor& shift, const Tensor& dy) const;
  AttentionOptions options_of(int64_t queries, int64_t keys) const;
  PartialDropout dropout_of(int64_t queries, int64_t row, int64_t keys) const;

  Resharder& resharder_;
  Ring ring_;
  RingOperands in_;
  bool helps_;      // early processes compute for later ones
  Tensor nothing_;  // the sum of what processes sent that had nothing to send: 0
};

}  // namespace transom
