// SPDX-License-Identifier: Apache-2.0
// The decoder of RT-DETR: queries that look at a few places of several maps around their boxes, which every layer
// corrects. B batch, Q queries, S places of all maps, D hidden, C classes.
#pragma once

#include <optional>
#include <vector>

#include "graph/ops/attention/deformable_attention.h"
#include "models/families/detr/detr_layers.h"
#include "models/families/rt_detr/rt_detr_config.h"
#include "models/nn/vision/stacked_layers.h"

namespace transom {

// The maps behind each other as one sequence.
struct RTDetrMemory {
  Tensor places;  // [B, S, D]
  Axes heights, widths;
};

// The first places that a query looks at: on a square around its own, one direction a head, further out point by point.
// [heads, maps, points, 2].
std::vector<float> first_looked_at_offsets(int64_t heads, int64_t maps, int64_t points);
// The deviation of weights that are drawn evenly by the sum of their extents (Glorot and Bengio, 2010).
double glorot_deviation(int64_t in, int64_t out);

// A linear layer whose new bias is not zero: what tells classes, most of which are rare, and where to look.
class RTDetrLinear {
 public:
  RTDetrLinear(const Scope& scope, int64_t in, int64_t out, double deviation, const Initial& bias);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// What a layer of the decoder says with its head: logits [B, Q, C] and boxes f32 [B, Q, 4].
struct RTDetrDetections {
  Tensor logits, boxes;
};

struct RTDetrDecoded {
  std::vector<Tensor> states;           // of each layer, [B, Q, D]
  std::vector<RTDetrDetections> heads;  // of each layer, where there are heads
  Tensor boxes;                         // f32 [B, Q, 4]: where the queries begin
};

class RTDetrDecoderLayer;

class RTDetrDecoder {
 public:
  // `has_heads`: whether each layer says classes and boxes.
  RTDetrDecoder(const Scope& scope, const RTDetrConfig& c, bool has_heads);
  ~RTDetrDecoder();
  // queries [B, Q, D], their boxes before the sigmoid f32 [B, Q, 4], and an additive mask of queries, or none.
  RTDetrDecoded operator()(const Tensor& queries, const Tensor& boxes, const Tensor& mask, const RTDetrMemory& memory,
                           ForwardContext& context) const;

 private:
  std::vector<RTDetrDecoderLayer> layers_;
  StackedLayers query_pos_head_;
  std::vector<RTDetrLinear> class_embed_;
  std::vector<StackedLayers> bbox_embed_;
};

}  // namespace transom
