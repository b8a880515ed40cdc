// SPDX-License-Identifier: Apache-2.0
// Where the queries of RT-DETR come from: the places of the maps that look most like objects; and in training, besides,
// labelled boxes with noise, which are to be found again (Zhang et al., DINO, 2022). B batch, S places, Q queries, D
// hidden, C classes, N labelled boxes a picture.
#pragma once

#include <optional>

#include "models/families/rt_detr/rt_detr_decoder.h"

namespace transom {

// log(x / (1 - x)) of parts of a picture, finite.
Tensor rt_detr_inverse_sigmoid(const Tensor& x);

struct RTDetrQueries {
  Tensor states;                 // [B, Q, D]
  Tensor boxes;                  // f32 [B, Q, 4], before the sigmoid, without gradients
  Tensor logits;                 // [B, Q, C]: what was said of the places
  Tensor proposals;              // f32 [B, Q, 4]: the boxes that were said, with gradients
  Tensor all_logits, all_boxes;  // [B, S, C] and f32 [B, S, 4], before the sigmoid: the same of every place
};

// The best places of all maps.
class RTDetrSelection {
 public:
  RTDetrSelection(const Scope& scope, const RTDetrConfig& c);
  RTDetrQueries operator()(const RTDetrMemory& memory, ForwardContext& context) const;

 private:
  RTDetrConfig c_;
  Linear enc_output_;
  LayerNorm enc_output_norm_;
  RTDetrLinear enc_score_head_;
  StackedLayers enc_bbox_head_;
  std::optional<Embedding> weight_embedding_;  // of queries that are learned
};

// Groups of labelled boxes, each with one copy near its box and one farther off, T queries in all, behind each other:
// group by group the near ones, then the far ones. A near one shall find its box, a far one nothing.
struct RTDetrNoisyQueries {
  int64_t groups = 0;
  Tensor classes;    // i64 [B, T]; C where there is no box
  Tensor boxes;      // f32 [B, T, 4], before the sigmoid
  Tensor mask;       // additive, f32 [1, 1, T + Q, T + Q]: groups do not see each other, queries do not see them
  Tensor matches;    // i64 [B, groups N]: the near query of each box, -1: none
  BoxLabels labels;  // [B, groups N]
  Tensor counted;    // f32 [B, T]: 0 of places at which no picture of the batch has a box
};
// The keys of the draws come from `context`.
RTDetrNoisyQueries rt_detr_noisy_queries(const BoxLabels& labels, const RTDetrConfig& c, ForwardContext& context);

}  // namespace transom
