// SPDX-License-Identifier: Apache-2.0
// How attention is cut: blocks of queries of one head whose scores stay in the second cache, so that no matrix of all
// scores is ever held (Dao et al., "FlashAttention", 2022).
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/kernels/kernel.h"
#include "cpu/products/matrix_product.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

// Some queries and the keys that any of them sees.
struct QueryBlock {
  int64_t query, queries;  // first, count
  int64_t key, keys;
};

struct AttentionPlan {
  // q [B, T, H, d], k [B, S, G, d], v [B, S, G, e]
  int64_t B, T, S, H, G, d, e;
  transom_dtype dtype;  // that is computed on
  float scale, soft_cap;
  bool causal;
  int64_t offset;  // the place of the first query among the keys
  int64_t window;  // 0: all
  bool biased;
  Shape bias_strides;  // over [B, H, T, S]; 0 where it repeats
  bool dropped;
  uint32_t drop_bound;
  float kept_scale;
  size_t key_input;  // which input is dropout's key
  // Draws belong to the places of [B, H, T, S] among those of the whole: its heads, queries and keys, and where these
  // begin.
  struct Draws {
    int64_t H, T, S, first_b = 0, first_h = 0, first_t = 0, first_s = 0;
  } draws;
  std::vector<QueryBlock> blocks;

  AttentionPlan(const Node& node, transom_dtype dtype);

  int64_t group() const { return H / G; }
  bool narrow() const { return dtype != TRANSOM_FLOAT32; }
  size_t element() const { return element_size(dtype); }
  // Which keys a query sees, [first, second).
  std::pair<int64_t, int64_t> visible(int64_t query) const;
  // The largest block's extents, for scratch memory.
  int64_t most_queries() const;
  int64_t most_keys() const;
  // The block with every key, for queries whose keys are all hidden by the bias.
  QueryBlock with_all_keys(const QueryBlock& block) const { return {block.query, block.queries, 0, S}; }

  // Scores of a block: q k, [queries, keys] of f32.
  std::shared_ptr<const MatrixProduct> scores_product(const QueryBlock& block) const;
};

// The inputs of one run.
struct AttentionInputs {
  const std::byte *q, *k, *v;
  const float* bias;
  uint64_t seed = 0, offset = 0;

  AttentionInputs(const AttentionPlan& plan, const Arguments& arguments);
};

// Rows of weights of one block of one head.
class WeightRows {
 public:
  WeightRows(const AttentionPlan& plan, const AttentionInputs& inputs, int64_t batch, int64_t head)
      : plan_(plan), inputs_(inputs), batch_(batch), head_(head) {}

  // Whether the bias hides all keys that some query of the block would see: then all keys count alike for it, those
  // that come later too, and the block takes all keys.
  bool hides_a_row(const QueryBlock& block) const;
  // What the products gave becomes weights: x is the row of `query` of a block. Hidden keys get 0. `own` has room for a
  // row. weights(x, bias, n) makes those of n keys, of which bias may be null.
  template <typename Weights>
  void weigh(const QueryBlock& block, bool all_keys, int64_t query, float* x, float* own, Weights&& weights) const {
    const auto [first, end] = plan_.visible(query);
    if (all_keys) return weights(x, all_biases(query, first, end, own), static_cast<size_t>(plan_.S));
    weigh_keys(block, query, first, end, x, own, weights);
  }
  // The same of the keys from `first` to `end` alone, of which there is at least one.
  template <typename Weights>
  void weigh_keys(const QueryBlock& block, int64_t query, int64_t first, int64_t end, float* x, float* own,
                  Weights&& weights) const {
    const int64_t begin = first - block.key, n = end - first;
    weights(x + begin, bias_row(query, first, n, own), static_cast<size_t>(n));
    std::fill(x, x + begin, 0.0f);
    std::fill(x + begin + n, x + block.keys, 0.0f);
  }
  void weigh_keys(const QueryBlock& block, int64_t query, int64_t first, int64_t end, float* x, float* own) const {
    weigh_keys(block, query, first, end, x, own, [&](float* scores, const float* bias, size_t n) {
      vector_kernels().attention_weights(scores, bias, plan_.scale, plan_.soft_cap, n);
    });
  }
  // By their softmax.
  void weigh(const QueryBlock& block, bool all_keys, int64_t query, float* x, float* own) const {
    weigh(block, all_keys, query, x, own, [&](float* scores, const float* bias, size_t n) {
      vector_kernels().attention_weights(scores, bias, plan_.scale, plan_.soft_cap, n);
    });
  }
  // Random words for the row.
  void draw(const QueryBlock& block, int64_t query, uint32_t* words) const;

 private:
  const float* bias_row(int64_t query, int64_t key, int64_t n, float* own) const;
  // Of all keys, where those outside [first, end) are hidden.
  const float* all_biases(int64_t query, int64_t first, int64_t end, float* own) const;

  const AttentionPlan& plan_;
  const AttentionInputs& inputs_;
  int64_t batch_, head_;
};

// Products and rows of f32 or bf16, which goes through f32 where the library has no products of it.
bool claims_attention(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);
// The same of gradients: that of capped scores is left to the primitives.
bool claims_attention_gradient(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes);

}  // namespace transom::cpu
