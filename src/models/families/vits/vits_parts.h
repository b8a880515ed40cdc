// SPDX-License-Identifier: Apache-2.0
// The parts of VITS (Kim et al., 2021) that are used to speak: an encoder of texts, how long each token is said, a flow
// from what the text tells to what is heard, and a decoder to samples. Letters as in vits_config.h.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/families/vits/vits_config.h"

namespace transom {

struct VitsText {
  Tensor hidden;                // [B, D, T]
  Tensor means, log_variances;  // [B, F, T]
};

class VitsLayer;
class VitsTextEncoder {
 public:
  VitsTextEncoder(const Scope& scope, const VitsConfig& c);
  // input_ids [B, T], counted [B, 1, T]: 1 where a token counts; mask: additive, [B, 1, 1, T] or empty.
  VitsText operator()(const Tensor& input_ids, const Tensor& counted, const Tensor& mask,
                      ForwardContext& context) const;
  DType dtype() const { return embed_tokens_.weight()->value.dtype(); }

 private:
  VitsConfig c_;
  Embedding embed_tokens_;
  std::vector<std::shared_ptr<const VitsLayer>> layers_;
  Convolution project_;
};

class VitsDurationNet;
class VitsDurations {
 public:
  VitsDurations(const Scope& scope, const VitsConfig& c);
  // log durations [B, 1, T]. `noise` [B, 2, T], scaled, where durations are drawn; speaker [B, E, 1] or empty.
  Tensor operator()(const Tensor& hidden, const Tensor& counted, const Tensor& speaker, const Tensor& noise,
                    ForwardContext& context) const;

 private:
  std::shared_ptr<const VitsDurationNet> net_;
};

class VitsCoupling;
class VitsFlow {
 public:
  VitsFlow(const Scope& scope, const VitsConfig& c);
  // From what the text tells to what is heard: [B, F, S] -> [B, F, S].
  Tensor backwards(Tensor x, const Tensor& counted, const Tensor& speaker, ForwardContext& context) const;

 private:
  std::vector<std::shared_ptr<const VitsCoupling>> flows_;
};

class VitsPosteriorNet;
// What hears a sound while a VITS learns. It is held, so that a checkpoint is whole; nothing here trains one.
class VitsPosterior {
 public:
  VitsPosterior(const Scope& scope, const VitsConfig& c);

 private:
  std::shared_ptr<const VitsPosteriorNet> net_;
};

}  // namespace transom
