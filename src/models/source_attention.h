// SPDX-License-Identifier: Apache-2.0
// Models with an encoder that tell what their decoder sees of it, by which words are found in a sound.
#pragma once

#include <vector>

#include "transom/model.h"

namespace transom {

class SourceAttention {
 public:
  virtual ~SourceAttention() = default;

  // What the encoder makes of its inputs, [B, S, D]. forward() and generate() take it, as encoder_outputs, in place of
  // these inputs.
  virtual Tensor encoder_outputs(const NamedTensors& inputs) const = 0;

  struct Seen {
    Tensor logits;                // [B, T, V]: of the token behind each
    std::vector<Tensor> weights;  // of each layer, f32 [B, H, T, S]: what each token sees of the source
  };
  // Of a whole text, decoder_input_ids [B, T].
  virtual Seen seen(const Tensor& encoder_outputs, const Tensor& decoder_input_ids) const = 0;
};

}  // namespace transom
