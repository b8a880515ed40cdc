// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/attention_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/kernels/movement/views.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr float kMaskedScore = -3.3895313892515355e38f;  // transom/ops.h
constexpr int64_t kBlockScores = 1 << 16;                // scores of a block: a quarter of a megabyte
constexpr int64_t kMostQueries = 128, kFewestQueries = 16;

}  // namespace

AttentionPlan::AttentionPlan(const Node& node, transom_dtype computed) : dtype(computed) {
  const Type &q = node.input(0), &k = node.input(1), &v = node.input(2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4 || k.shape[2] == 0 || q.shape[2] % k.shape[2] != 0)
    fail(TRANSOM_INVALID_ARGUMENT, "expected q [B, T, H, d] and k, v of G heads, found {} {} {}", to_string(q),
         to_string(k), to_string(v));
  B = q.shape[0], T = q.shape[1], H = q.shape[2], d = q.shape[3];
  S = k.shape[1], G = k.shape[2], e = v.shape[3];
  scale = static_cast<float>(node.number("scale"));
  soft_cap = static_cast<float>(node.number("soft_cap"));
  causal = node.integer("causal") != 0;
  offset = node.integer("offset", S - T);
  window = node.integer("sliding_window");
  biased = node.integer("biased") != 0;
  if (biased) {
    const Type& bias = node.input(3);
    if (bias.rank() != 4 || bias.dtype != TRANSOM_FLOAT32)
      fail(TRANSOM_UNSUPPORTED, "expected a bias f32 of four axes, found {}", to_string(bias));
    bias_strides = dense_strides(bias.shape);
    const Shape full = {B, H, T, S};
    for (size_t axis = 0; axis < 4; ++axis) {
      if (bias.shape[axis] == 1) bias_strides[axis] = 0;
      else if (bias.shape[axis] != full[axis])
        fail(TRANSOM_INVALID_ARGUMENT, "a bias of {} does not broadcast to the scores", to_string(bias));
    }
  }
  const double dropout = node.has("dropout") ? node.number("dropout") : 0;
  dropped = dropout > 0;
  drop_bound = static_cast<uint32_t>(std::min(std::floor(dropout * 4294967296.0), 4294967295.0));
  kept_scale = static_cast<float>(1.0 / (1.0 - dropout));
  key_input = biased ? 4 : 3;
  draws = {H, T, S};
  if (dropped && node.has("draws_of")) {
    const Shape &whole = node.integers("draws_of"), &at = node.integers("draws_at");
    draws = {whole.at(0), whole.at(1), whole.at(2), at.at(0), at.at(1), at.at(2), at.at(3)};
  }

  int64_t together = std::clamp(kBlockScores / std::max<int64_t>(S, 1), kFewestQueries, kMostQueries);
  if (causal && together >= 64) together = T > 128 ? std::min<int64_t>(together, 128) : 64;
  for (int64_t query = 0; query < T; query += together) {
    QueryBlock block{query, std::min(together, T - query), 0, S};
    if (causal) {
      const int64_t first = visible(block.query).first, last = visible(block.query + block.queries - 1).second;
      block.key = first;
      block.keys = last - first;
    }
    if (block.keys <= 0) block = with_all_keys(block);
    blocks.push_back(block);
  }
}

std::pair<int64_t, int64_t> AttentionPlan::visible(int64_t query) const {
  if (!causal || (offset + 1 >= S && window == 0)) return {0, S};
  const int64_t place = query + offset;
  const int64_t first = window > 0 ? std::clamp<int64_t>(place - window + 1, 0, S) : 0;
  return {first, std::clamp<int64_t>(place + 1, first, S)};
}

int64_t AttentionPlan::most_queries() const {
  int64_t most = 0;
  for (const QueryBlock& block : blocks) most = std::max(most, block.queries);
  return most;
}

int64_t AttentionPlan::most_keys() const {
  if (biased || T > S || offset != S - T) return S;
  int64_t most = 0;
  for (const QueryBlock& block : blocks) most = std::max(most, block.keys);
  return most;
}

std::shared_ptr<const MatrixProduct> AttentionPlan::scores_product(const QueryBlock& block) const {
  return MatrixProduct::find(
      {block.queries, block.keys, d, H * d, 1, 1, G * d, block.keys, dtype, TRANSOM_FLOAT32, false, false});
}

AttentionInputs::AttentionInputs(const AttentionPlan& plan, const Arguments& arguments)
    : q(arguments.inputs[0]),
      k(arguments.inputs[1]),
      v(arguments.inputs[2]),
      bias(plan.biased ? arguments.input<float>(3) : nullptr) {
  if (!plan.dropped) return;
  std::memcpy(&seed, arguments.inputs[plan.key_input], sizeof seed);
  std::memcpy(&offset, arguments.inputs[plan.key_input] + sizeof seed, sizeof offset);
}

// The bias of some keys, where it lies or written out into `own`; null if there is none.
const float* WeightRows::bias_row(int64_t query, int64_t key, int64_t n, float* own) const {
  if (!inputs_.bias) return nullptr;
  const Shape& strides = plan_.bias_strides;
  const float* row = inputs_.bias + batch_ * strides[0] + head_ * strides[1] + query * strides[2];
  if (strides[3] == 1) return row + key;
  std::fill_n(own, n, *row);
  return own;
}

bool WeightRows::hides_a_row(const QueryBlock& block) const {
  if (!plan_.causal) return false;
  for (int64_t query = block.query; query < block.query + block.queries; ++query) {
    const auto [first, end] = plan_.visible(query);
    if (first == end) return true;
    if (!inputs_.bias) continue;
    const Shape& strides = plan_.bias_strides;
    const float* row = inputs_.bias + batch_ * strides[0] + head_ * strides[1] + query * strides[2];
    bool hidden = true;
    for (int64_t key = first; key < end && hidden; ++key) hidden = row[key * strides[3]] <= kMaskedScore;
    if (hidden) return true;
  }
  return false;
}

// Hidden by place and hidden by the bias weigh the same. Without places the bias is what it is: of a row that is
// -infinity throughout the softmax is NaN.
const float* WeightRows::all_biases(int64_t query, int64_t first, int64_t end, float* own) const {
  if (const float* bias = bias_row(query, 0, plan_.S, own)) std::memmove(own, bias, static_cast<size_t>(plan_.S) * 4);
  else std::fill_n(own, plan_.S, 0.0f);
  const bool by_place = plan_.causal && (plan_.offset + 1 < plan_.S || plan_.window != 0);
  for (int64_t key = 0; key < plan_.S; ++key)
    if (key < first || key >= end) own[key] = kMaskedScore;
    else if (by_place) own[key] = std::max(own[key], kMaskedScore);
  return own;
}

void WeightRows::draw(const QueryBlock& block, int64_t query, uint32_t* words) const {
  const AttentionPlan::Draws& all = plan_.draws;
  const auto row =
      static_cast<uint64_t>(((all.first_b + batch_) * all.H + all.first_h + head_) * all.T + all.first_t + query);
  vector_kernels().random_bits(words, inputs_.seed, inputs_.offset,
                               row * static_cast<uint64_t>(all.S) + static_cast<uint64_t>(all.first_s + block.key),
                               static_cast<size_t>(block.keys));
}

bool claims_attention(std::span<const transom_value> inputs, std::span<const transom_attribute> attributes) {
  if (inputs.size() < 3 || (inputs[0].dtype != TRANSOM_FLOAT32 && inputs[0].dtype != TRANSOM_BFLOAT16)) return false;
  for (const transom_value& input : inputs.first(3))
    if (input.dtype != inputs[0].dtype || std::count(input.shape, input.shape + input.rank, 0)) return false;
  return std::none_of(attributes.begin(), attributes.end(), [&](const transom_attribute& attribute) {
    return std::string_view(attribute.name) == "biased" && attribute.int_value && inputs[3].dtype != TRANSOM_FLOAT32;
  });
}

}  // namespace transom::cpu
