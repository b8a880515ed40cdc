// SPDX-License-Identifier: Apache-2.0
// Layers of models beside those of transom/layers.h. D hidden, V vocabulary.
#pragma once

#include "transom/layers.h"

namespace transom {

// In training, leaves out a whole layer at random (Fan et al., 2019): gives what went in, or what came out.
class LayerDrop {
 public:
  explicit LayerDrop(double probability) : probability_(probability) {}
  Tensor operator()(const Tensor& in, const Tensor& out, ForwardContext& context) const;

 private:
  double probability_;
};

// A key for the next random draw of this pass; each draw has its own offset, passes are set apart by the key.
Tensor next_random_key(ForwardContext& context);

// A decoder over the vocabulary whose weight is the word embedding, or its own: hidden [..., D] -> logits [..., V].
class TiedDecoder {
 public:
  // `bias` is the bias' full name under the scope; `weight` the untied weight's.
  TiedDecoder(const Scope& scope, const std::string& bias, const std::string& weight, const Embedding& embedding,
              bool tied, int64_t width, int64_t vocabulary, double deviation);
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const;

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace transom
