// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/attention_gemm.h"

#include "cpu/device/processor.h"
#include "cpu/kernels/movement/copy.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {
namespace {

constexpr int64_t kFewScores = 1 << 12;

// Matrices of this size are multiplied in less time than the library takes to bring them into its order, or to make
// code; but it alone has AMX, and a single query takes less than to pack keys.
const PanelProducts* panels_for(const AttentionPlan& plan, const QueryBlock& block) {
  if (block.queries == 1) return nullptr;
  if (plan.dtype == TRANSOM_FLOAT32) return &vector_kernels().panels_f32;
  const PanelProducts& panels = vector_kernels().panels_bf16;
  if (plan.dtype != TRANSOM_BFLOAT16 || !panels.multiply || plan.d % 2 != 0) return nullptr;
  if (!processor_features().amx_bf16 || block.queries * block.keys <= kFewScores) return &panels;
  return tile_products(plan);
}

size_t element_count(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

const PanelProducts* tile_products(const AttentionPlan& plan) {
  const PanelProducts& tiles = vector_kernels().tiles_bf16;
  const auto depth = static_cast<int64_t>(tiles.width);
  if (plan.dtype != TRANSOM_BFLOAT16 || !tiles.multiply || plan.d % depth != 0 || plan.e % depth != 0) return nullptr;
  return &tiles;
}

const void* as_operand(const AttentionPlan& plan, const float* x, int64_t n, uint16_t* own) {
  if (!plan.narrow()) return x;
  store_function(plan.dtype)(own, x, nullptr, nullptr, element_count(n));
  return own;
}

HeadProducts::HeadProducts(const AttentionPlan& plan, const QueryBlock& block)
    : plan_(plan), queries_(block.queries), keys_(block.keys), row_(block.keys), panels_(panels_for(plan, block)) {
  if (panels_) {
    row_ = whole_panels(keys_);
    return;
  }
  scores_ = plan.scores_product(block);
  mixed_ = MatrixProduct::find(
      {queries_, plan.e, keys_, keys_, 1, plan.G * plan.e, 1, plan.H * plan.e, plan.dtype, plan.dtype, false, false});
}

int64_t HeadProducts::whole_panels(int64_t columns) const {
  const auto width = static_cast<int64_t>(panels_->width);
  return (columns + width - 1) / width * width;
}

size_t HeadProducts::scratch_bytes() const {
  const size_t narrow = Scratch::bytes_of<uint16_t>(plan_.narrow() ? queries_ * row_ : 0);
  if (!panels_) return narrow;
  return narrow + packed_bytes() + Scratch::bytes_of<float>(queries_ * whole_panels(plan_.e));
}

size_t HeadProducts::packed_bytes() const {
  return Scratch::bytes_of<uint32_t>(row_ * plan_.d) + Scratch::bytes_of<uint32_t>((row_ + 1) * whole_panels(plan_.e));
}

const uint32_t* HeadProducts::pack_keys(const std::byte* k, Scratch& scratch) const {
  auto* packed = scratch.take<uint32_t>(row_ * plan_.d);
  panels_->pack_transposed(packed, k, element_count(plan_.G * plan_.d), element_count(plan_.d), element_count(keys_));
  return packed;
}

const uint32_t* HeadProducts::pack_values(const std::byte* v, Scratch& scratch) const {
  auto* packed = scratch.take<uint32_t>((row_ + 1) * whole_panels(plan_.e));
  panels_->pack(packed, v, element_count(plan_.G * plan_.e), element_count(keys_), element_count(plan_.e));
  return packed;
}

PackedHead HeadProducts::pack(const std::byte* k, const std::byte* v, Scratch& scratch) const {
  const uint32_t* keys = pack_keys(k, scratch);
  return {keys, pack_values(v, scratch)};
}

void HeadProducts::scores(const std::byte* q, const std::byte* k, float* scores, Scratch& scratch,
                          const PackedHead* packed) const {
  const int64_t d = plan_.d;
  if (!panels_) {
    scores_->run(q, k, nullptr, scores);
    return;
  }
  panels_->multiply(scores, element_count(row_), q, element_count(plan_.H * d),
                    packed ? packed->keys : pack_keys(k, scratch), element_count(queries_), element_count(keys_),
                    element_count(d));
}

void HeadProducts::mix(const float* weights, const std::byte* v, std::byte* y, Scratch& scratch,
                       const PackedHead* packed) const {
  const int64_t e = plan_.e;
  auto* narrow = scratch.take<uint16_t>(plan_.narrow() ? queries_ * row_ : 0);
  const void* left = weights;
  if (panels_ && panels_->round) {
    panels_->round(narrow, weights, element_count(queries_ * row_));
    left = narrow;
  } else {
    left = as_operand(plan_, weights, queries_ * row_, narrow);
  }
  const size_t y_row = element_count(plan_.H * e) * plan_.element(), width = element_count(e) * plan_.element();
  if (!panels_) {
    mixed_->run(left, v, nullptr, y);
    return;
  }
  const int64_t columns = whole_panels(e);
  const uint32_t* values = packed ? packed->values : pack_values(v, scratch);
  auto* result = scratch.take<float>(queries_ * columns);
  panels_->multiply(result, element_count(columns), left, element_count(row_), values, element_count(queries_),
                    element_count(e), element_count(keys_));
  if (!plan_.narrow()) {
    copy_rows(y, y_row, reinterpret_cast<const std::byte*>(result), element_count(columns) * sizeof(float), queries_,
              width);
    return;
  }
  for (int64_t i = 0; i < queries_; ++i)
    store_function(plan_.dtype)(y + element_count(i) * y_row, result + i * columns, nullptr, nullptr, element_count(e));
}

}  // namespace transom::cpu
