// SPDX-License-Identifier: Apache-2.0
// What the bodies of text encoders share: checked inputs, and the way through the layers. B batch, T time, D hidden.
#pragma once

#include <optional>
#include <vector>

#include "transom/gradients.h"
#include "transom/model.h"

namespace transom {

struct EncoderInputs {
  Tensor input_ids, inputs_embeds;  // [B, T] or [B, T, D]: exactly one of them
  Tensor token_type_ids;            // [B, T] or empty
  Tensor position_ids;              // [B, T] or [1, T]
  Tensor mask;                      // additive, [B, 1, 1 or T, T], or empty
  int64_t length = 0;               // T
};

// Positions count from 0, or, given the padding id, from the place behind it, padding tokens staying there.
// `texts`: of a pass over several texts a row (ForwardContext::texts), where positions begin anew and no mask is
// needed.
EncoderInputs encoder_inputs(const NamedTensors& inputs, int64_t max_position_embeddings,
                             std::optional<int64_t> positions_after_padding = std::nullopt,
                             const TextsInRows* texts = nullptr);

struct EncoderOutput {
  Tensor last_hidden_state;           // [B, T, D]
  std::vector<Tensor> hidden_states;  // embeddings, then each layer's, if the context asks for them
};

// Adds hidden_states.<i> where the context asked for them.
void add_hidden_states(NamedTensors& outputs, const std::vector<Tensor>& hidden_states);

// x [B, T, D] through layers that are called with (x, mask, context).
template <typename Layer>
EncoderOutput through_layers(const std::vector<Layer>& layers, Tensor x, const Tensor& mask, ForwardContext& context) {
  EncoderOutput output;
  if (context.output_hidden_states) output.hidden_states.push_back(x);
  for (const Layer& layer : layers) {
    if (context.gradient_checkpointing && context.training) {
      const auto region = [&](const std::vector<Tensor>& in) {
        return layer(in[0], in.size() > 1 ? in[1] : Tensor(), context);
      };
      x = checkpoint(region, mask.defined() ? std::vector<Tensor>{x, mask} : std::vector<Tensor>{x});
    } else {
      x = layer(x, mask, context);
    }
    if (context.output_hidden_states) output.hidden_states.push_back(x);
  }
  output.last_hidden_state = x;
  return output;
}

}  // namespace transom
