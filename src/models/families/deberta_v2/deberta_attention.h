// SPDX-License-Identifier: Apache-2.0
// The attention of DeBERTa (He et al., 2021), which sees content and relative position apart, in the forms of versions
// 1 and 2. A score is the sum of content to content, content to position (c2p) and position to content (p2c). B batch,
// T time, D hidden, H heads, d head size, R relative positions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/shared/encoder_model.h"

namespace transom {

struct DebertaV2Config : BertConfig {
  explicit DebertaV2Config(const Config& config);
  bool relative_attention, position_biased_input, share_att_key, c2p = false, p2c = false, norm_rel_ebd = false, legacy;
  int64_t position_buckets, max_relative_positions, embedding_size, attention_head_size, conv_kernel_size, conv_groups,
      pooler_hidden_size;
  double pooler_dropout, cls_dropout;
  std::string conv_act, pooler_hidden_act;
  // Of version 1: one layer makes queries, keys and values, with biases of the first and the last apart; and heads may
  // mix with each other before and behind the softmax.
  bool fused = false, talking_head = false;

  // Relative positions lie within -span .. span - 1.
  int64_t span() const { return position_buckets > 0 ? position_buckets : max_relative_positions; }
  int64_t all_heads() const { return num_attention_heads * attention_head_size; }

 protected:
  struct Version1 {};
  DebertaV2Config(const Config& config, Version1);

 private:
  void read_kinds(const Config& config);
};

struct DebertaConfig : DebertaV2Config {
  explicit DebertaConfig(const Config& config) : DebertaV2Config(config, Version1{}) {}
};

// The relative position of each query and key as a row of the table of 2 span: i64 [T, T].
Tensor relative_positions(int64_t T, const DebertaV2Config& config);

// What all layers see of positions.
struct DistanceTables {
  Tensor embeddings;  // [1, R, D]; empty without relative attention
  Tensor rows;        // i64 [T, T]
};

class DisentangledAttention {
 public:
  DisentangledAttention(const Scope& scope, const DebertaV2Config& config);
  // x [B, T, D], mask bool [B, 1, T, T] or empty -> [B, T, H d]
  Tensor operator()(const Tensor& x, const Tensor& mask, const DistanceTables& positions,
                    ForwardContext& context) const;

 private:
  struct Projected {
    Tensor queries, keys, values;  // [B, T, H, d]
  };
  Projected project(const Tensor& x, ForwardContext& context) const;
  // What content and positions have with each other, [B, H, T, T], added to `scores`.
  Tensor with_positions(Tensor scores, const Projected& heads, const DistanceTables& positions,
                        ForwardContext& context) const;
  Tensor split(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }
  Tensor of_positions(const Linear& projection, const Tensor& embeddings, int64_t B, ForwardContext& context) const;

  std::string path_;
  int64_t heads_;
  double scale_;
  bool c2p_, p2c_;
  std::optional<Linear> query_proj_, key_proj_, value_proj_, in_proj_;
  std::shared_ptr<Parameter> q_bias_, v_bias_;  // [H d]
  std::optional<Linear> pos_key_proj_, pos_query_proj_;
  std::optional<Linear> head_logits_proj_, head_weights_proj_;  // [H, H]
  Dropout position_dropout_, dropout_;
};

}  // namespace transom
