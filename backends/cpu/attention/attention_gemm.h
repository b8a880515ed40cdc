// SPDX-License-Identifier: Apache-2.0
// The two products of attention for some queries of one head: scores = q k', y = weights v.
#pragma once

#include "cpu/attention/attention_plan.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

// The keys and values of a head in panels, which its blocks of queries share.
struct PackedHead {
  const uint32_t *keys, *values;
};

class HeadProducts {
 public:
  HeadProducts(const AttentionPlan& plan, const QueryBlock& block);

  // From row to row of the scores and of the weights, which lie in the same memory. What a row has behind its keys is
  // made 0 by scores() and must stay 0.
  int64_t row() const { return row_; }
  size_t scratch_bytes() const;

  // q, k, v and y point to the head's first number in [queries, H, d], [keys, G, d], [keys, G, e] and [queries, H, e].
  // `packed`: keys and values as pack() brings them into panels, or null.
  void scores(const std::byte* q, const std::byte* k, float* scores, Scratch& scratch,
              const PackedHead* packed = nullptr) const;
  void mix(const float* weights, const std::byte* v, std::byte* y, Scratch& scratch,
           const PackedHead* packed = nullptr) const;

  // Whether the products read panels, and those of the other block, if it has the same keys, are right for this one.
  bool packs_as(const HeadProducts& other) const { return panels_ && panels_ == other.panels_; }
  size_t packed_bytes() const;
  PackedHead pack(const std::byte* k, const std::byte* v, Scratch& scratch) const;

 private:
  int64_t whole_panels(int64_t columns) const;
  const uint32_t* pack_keys(const std::byte* k, Scratch& scratch) const;
  const uint32_t* pack_values(const std::byte* v, Scratch& scratch) const;

  const AttentionPlan& plan_;
  int64_t queries_, keys_, row_;
  const PanelProducts* panels_;  // null: the library's
  std::shared_ptr<const MatrixProduct> scores_, mixed_;
};

// Products of bf16 by tiles of the processor, where it has them and the heads are of whole tiles; else null.
const PanelProducts* tile_products(const AttentionPlan& plan);

// n numbers as the products take them: themselves, or rounded into `own`.
const void* as_operand(const AttentionPlan& plan, const float* x, int64_t n, uint16_t* own);

}  // namespace transom::cpu
