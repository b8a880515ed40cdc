// SPDX-License-Identifier: Apache-2.0
#include "models/families/deberta_v2/deberta_attention.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/family.h"
#include "models/shared/relative_distance.h"

namespace transom {
namespace {

// A list of names, or one string with bars between them.
std::vector<std::string> names_in(const Config& config, const std::string& field) {
  if (!config.has(field)) return {};
  if (!json_of(config)[field].is_string()) return config.get_strings(field);
  std::vector<std::string> names(1);
  for (const char c : config.get_string(field)) {
    if (c == '|') names.emplace_back();
    else if (c != ' ') names.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return names;
}

}  // namespace

DebertaV2Config::DebertaV2Config(const Config& config)
    : BertConfig(with_defaults(config, R"({"vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24,
          "num_attention_heads": 24, "intermediate_size": 6144, "type_vocab_size": 0, "layer_norm_eps": 1e-7})")),
      relative_attention(config.get_bool("relative_attention", false)),
      position_biased_input(config.get_bool("position_biased_input", true)),
      share_att_key(config.get_bool("share_att_key", false)),
      legacy(config.get_bool("legacy", true)),
      position_buckets(config.get_int("position_buckets", -1)),
      max_relative_positions(config.get_int("max_relative_positions", -1)),
      embedding_size(config.get_int("embedding_size", hidden_size)),
      attention_head_size(config.get_int("attention_head_size", hidden_size / num_attention_heads)),
      conv_kernel_size(config.get_int("conv_kernel_size", 0)),
      conv_groups(config.get_int("conv_groups", 1)),
      pooler_hidden_size(config.get_int("pooler_hidden_size", hidden_size)),
      pooler_dropout(config.get_float("pooler_dropout", 0)),
      cls_dropout(config.get_float("cls_dropout", hidden_dropout_prob)),
      conv_act(config.get_string("conv_act", "tanh")),
      pooler_hidden_act(config.get_string("pooler_hidden_act", "gelu")) {
  for (const std::string& norm : names_in(config, "norm_rel_ebd")) norm_rel_ebd |= norm == "layer_norm";
  read_kinds(config);
}

// What version 1 does not know has no effect on it.
DebertaV2Config::DebertaV2Config(const Config& config, Version1)
    : BertConfig(with_defaults(config, R"({"vocab_size": 50265, "type_vocab_size": 0, "layer_norm_eps": 1e-7})")),
      relative_attention(config.get_bool("relative_attention", false)),
      position_biased_input(config.get_bool("position_biased_input", true)),
      share_att_key(false),
      legacy(config.get_bool("legacy", true)),
      position_buckets(-1),
      max_relative_positions(config.get_int("max_relative_positions", -1)),
      embedding_size(config.get_int("embedding_size", hidden_size)),
      attention_head_size(hidden_size / num_attention_heads),
      conv_kernel_size(0),
      conv_groups(1),
      pooler_hidden_size(config.get_int("pooler_hidden_size", hidden_size)),
      pooler_dropout(config.get_float("pooler_dropout", 0)),
      cls_dropout(config.get_float("cls_dropout", hidden_dropout_prob)),
      pooler_hidden_act(config.get_string("pooler_hidden_act", "gelu")),
      fused(true),
      talking_head(config.get_bool("talking_head", false)) {
  read_kinds(config);
}

void DebertaV2Config::read_kinds(const Config& config) {
  classifier_dropout = hidden_dropout_prob;
  if (max_relative_positions < 1) max_relative_positions = max_position_embeddings;
  constexpr int64_t kFarthest = int64_t{1} << 20;
  if (std::max(max_relative_positions, position_buckets) > kFarthest)
    fail("config.json: max_relative_positions and position_buckets: expected at most {}, found {} and {}", kFarthest,
         max_relative_positions, position_buckets);
  for (const std::string& type : names_in(config, "pos_att_type")) {
    if (type == "c2p") c2p = true;
    else if (type == "p2c") p2c = true;
    else fail("config.json: pos_att_type: {} is not carried out; c2p and p2c are", quoted(type));
  }
}

namespace {

// Near positions have a bucket each; farther ones share buckets of growing ranges.
int64_t log_bucket(int64_t distance, int64_t buckets, int64_t max_position) {
  const int64_t middle = buckets / 2, length = std::abs(distance);
  if (length <= middle) return distance;
  const auto ratio = [&](double x) { return std::log(static_cast<float>(x / static_cast<double>(middle))); };
  const float place = std::ceil(ratio(static_cast<double>(length)) / ratio(static_cast<double>(max_position - 1)) *
                                static_cast<float>(middle - 1));
  const int64_t bucket = static_cast<int64_t>(place) + middle;
  return distance < 0 ? -bucket : bucket;
}

// The score of what is not seen: finite, since a place of padding sees nothing at all.
double hidden_score(DType dtype) { return dtype == DType::kFloat16 ? -65504.0 : -3.3895313892515355e38; }

}  // namespace

Tensor relative_positions(int64_t T, const DebertaV2Config& c) {
  // Twice the greatest distance of a bucket of its own is in the last one for certain: one table serves every length.
  const int64_t M = 2 * std::max(c.max_relative_positions, c.span());
  std::vector<int64_t> rows;  // of the distances -M .. M
  for (int64_t distance = -M; distance <= M; ++distance) {
    const int64_t position =
        c.position_buckets > 0 ? log_bucket(distance, c.position_buckets, c.max_relative_positions) : distance;
    rows.push_back(std::clamp<int64_t>(position + c.span(), 0, 2 * c.span() - 1));
  }
  const Tensor place = clipped(iota({T, T}, 0) - iota({T, T}, 1), M) + static_cast<double>(M);
  return gather(Tensor::from(rows, {2 * M + 1}), place, 0);
}

namespace {

Tensor score_products(const Tensor& x, const Tensor& y, ForwardContext& context) {
  return dot_general(x, y, {{0, 2}, {0, 2}, {3}, {3}}, context.computing);
}

// scores [B, H, T, R] of all relative positions, rows [T, T] -> [B, H, T, T]
Tensor chosen(const Tensor& scores, const Tensor& rows) {
  return take_along_axis(scores, broadcast_to(rows, {scores.dim(0), scores.dim(1), rows.dim(0), rows.dim(1)}), 3);
}

// x [B, H, T, T], whose heads mix.
Tensor between_heads(const Linear& mixer, const Tensor& x, ForwardContext& context) {
  return permute(mixer(permute(x, {0, 2, 3, 1}), context), {0, 3, 1, 2});
}

}  // namespace

DisentangledAttention::DisentangledAttention(const Scope& scope, const DebertaV2Config& c)
    : path_(scope.path()),
      heads_(c.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(c.attention_head_size * (1 + (c.c2p ? 1 : 0) + (c.p2c ? 1 : 0))))),
      c2p_(c.relative_attention && c.c2p),
      p2c_(c.relative_attention && c.p2c),
      position_dropout_(c.hidden_dropout_prob),
      dropout_(c.attention_probs_dropout_prob) {
  const int64_t D = c.hidden_size, all = c.all_heads();
  const Linear::Options unbiased{.bias = false, .deviation = c.initializer_range};
  if (c.fused) {
    in_proj_.emplace(scope / "in_proj", D, 3 * all, unbiased);
    q_bias_ = scope.parameter("q_bias", {all}, Initial::zeros());
    v_bias_ = scope.parameter("v_bias", {all}, Initial::zeros());
  } else {
    query_proj_.emplace(scope / "query_proj", D, all, c.new_weights());
    key_proj_.emplace(scope / "key_proj", D, all, c.new_weights());
    value_proj_.emplace(scope / "value_proj", D, all, c.new_weights());
  }
  if (c.talking_head) {
    head_logits_proj_.emplace(scope / "head_logits_proj", heads_, heads_, unbiased);
    head_weights_proj_.emplace(scope / "head_weights_proj", heads_, heads_, unbiased);
  }
  if (c.share_att_key) return;
  if (c2p_)
    pos_key_proj_.emplace(scope / (c.fused ? "pos_proj" : "pos_key_proj"), D, all,
                          c.fused ? unbiased : c.new_weights());
  if (p2c_) pos_query_proj_.emplace(scope / (c.fused ? "pos_q_proj" : "pos_query_proj"), D, all, c.new_weights());
}

Tensor DisentangledAttention::operator()(const Tensor& x, const Tensor& mask, const DistanceTables& positions,
                                         ForwardContext& context) const {
  const ModuleScope module(path_);
  const Projected heads = project(x, context);
  Tensor scores = score_products(heads.queries, heads.keys, context);  // [B, H, T, T]
  if (c2p_ || p2c_) scores = with_positions(scores, heads, positions, context);
  scores = scores * scale_;
  if (head_logits_proj_) scores = between_heads(*head_logits_proj_, scores, context);
  // Scores of padding are replaced, so that no gradient comes from there.
  if (mask.defined())
    scores = select(broadcast_to(mask, scores.shape()), scores,
                    full(scores.shape(), hidden_score(scores.dtype()), scores.dtype()));
  Tensor weights = cast(dropout_(softmax(scores, context.computing), context), heads.values.dtype());
  if (head_weights_proj_) weights = between_heads(*head_weights_proj_, weights, context);
  const Tensor mixed = dot_general(weights, heads.values, {{0, 1}, {0, 2}, {3}, {1}}, context.computing);
  return reshape(permute(mixed, {0, 2, 1, 3}), {x.dim(0), x.dim(1), -1});
}

DisentangledAttention::Projected DisentangledAttention::project(const Tensor& x, ForwardContext& context) const {
  if (!in_proj_)
    return {split((*query_proj_)(x, context)), split((*key_proj_)(x, context)), split((*value_proj_)(x, context))};
  const Tensor all = split((*in_proj_)(x, context));  // of each head its query, key and value
  const int64_t d = all.dim(3) / 3;
  const auto part = [&](int64_t i) { return slice(all, 3, i * d, (i + 1) * d); };
  const auto biased = [&](const Tensor& y, const Parameter& bias) {
    return y + cast(reshape(bias.value, {1, 1, heads_, d}), y.dtype());
  };
  return {biased(part(0), *q_bias_), part(1), biased(part(2), *v_bias_)};
}

Tensor DisentangledAttention::with_positions(Tensor scores, const Projected& heads, const DistanceTables& positions,
                                             ForwardContext& context) const {
  const int64_t B = heads.queries.dim(0);
  const Tensor embeddings = position_dropout_(positions.embeddings, context);
  if (c2p_) {
    const Tensor keys = of_positions(pos_key_proj_ ? *pos_key_proj_ : *key_proj_, embeddings, B, context);
    scores = scores + chosen(score_products(heads.queries, keys, context), positions.rows);
  }
  if (p2c_) {  // the position seen from the key: the same row, as buckets are symmetric
    const Tensor queries = of_positions(pos_query_proj_ ? *pos_query_proj_ : *query_proj_, embeddings, B, context);
    scores =
        scores + transpose(chosen(score_products(heads.keys, queries, context), permute(positions.rows, {1, 0})), 2, 3);
  }
  return scores;
}

Tensor DisentangledAttention::of_positions(const Linear& projection, const Tensor& embeddings, int64_t B,
                                           ForwardContext& context) const {  // [B, R, H, d]
  const Tensor projected = split(projection(embeddings, context));
  return broadcast_to(projected, {B, projected.dim(1), projected.dim(2), projected.dim(3)});
}

}  // namespace transom
