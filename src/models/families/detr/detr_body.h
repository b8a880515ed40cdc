// SPDX-License-Identifier: Apache-2.0
// The body of DETR (Carion et al., 2020): a map of features read as a sequence by an encoder, and queries that a
// decoder turns to what they look at. B batch, Q queries, S = h w places of the map, D hidden.
#pragma once

#include <memory>
#include <vector>

#include "models/families/detr/detr_backbone.h"
#include "models/families/detr/detr_config.h"
#include "models/shared/encoder_body.h"
#include "transom/layers.h"

namespace transom {

class DetrPositions;
class DetrLayers;

struct DetrOutput {
  std::vector<Tensor> maps;                            // of the backbone, each [B, C, h, w]
  Tensor projected;                                    // [B, D, h, w]: what the encoder reads
  Tensor mask;                                         // additive, of places, [B, 1, 1, S]
  Tensor memory;                                       // [B, S, D]: what the encoder gives
  Tensor last_hidden_state;                            // [B, Q, D]
  std::vector<Tensor> by_layer;                        // of the decoder, with auxiliary_loss: each [B, Q, D]
  std::vector<Tensor> encoder_states, decoder_states;  // where they are asked for
};

class DetrBody {
 public:
  DetrBody(const Config& config, const DetrConfig& c, const Scope& scope);
  ~DetrBody();
  DetrOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;
  const std::vector<int64_t>& map_widths() const { return backbone_.widths(); }

 private:
  DetrConfig c_;
  DetrBackbone backbone_;
  std::unique_ptr<DetrPositions> positions_;
  Convolution input_projection_;
  Embedding query_position_embeddings_;
  std::unique_ptr<DetrLayers> layers_;
};

// The arguments that all classes take.
const std::vector<std::string>& detr_input_names();
// encoder_last_hidden_state and states, behind what a class gives.
NamedTensors with_detr_states(NamedTensors outputs, const DetrOutput& output);

}  // namespace transom
