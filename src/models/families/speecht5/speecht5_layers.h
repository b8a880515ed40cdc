// SPDX-License-Identifier: Apache-2.0
// The stacks of SpeechT5: norms behind the layers; distances of tokens in the encoder. Letters as in speecht5_config.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/families/speecht5/speecht5_config.h"
#include "models/nn/layers.h"
#include "models/shared/encoder_decoder.h"

namespace transom {

// Sinusoids of the places, sines and cosines beside each other, times a learned number: [B, T, D], of which the first
// has the place `first`.
class SpeechT5Positions {
 public:
  SpeechT5Positions(const Scope& scope, const SpeechT5Config& c, int64_t most, std::string what);
  Tensor operator()(const Tensor& x, int64_t first, ForwardContext& context) const;

 private:
  int64_t most_;
  std::string what_;
  std::shared_ptr<Parameter> alpha_;
  Dropout dropout_;
};

// Vectors of tokens at their places: [B, S] -> [B, S, D].
class SpeechT5TextPrenet {
 public:
  SpeechT5TextPrenet(const Scope& scope, const SpeechT5Config& c);
  Tensor operator()(const Tensor& input_ids, ForwardContext& context) const;

 private:
  Embedding embed_tokens_;
  SpeechT5Positions encode_positions_;
};

class SpeechT5EncoderLayer;
class SpeechT5Encoder {
 public:
  SpeechT5Encoder(const Scope& scope, const SpeechT5Config& c);
  // [B, S, D], additive mask or empty -> [B, S, D]
  Tensor operator()(Tensor x, const Tensor& mask, ForwardContext& context) const;

 private:
  int64_t reach_;  // of the distances that are told apart
  std::vector<std::shared_ptr<const SpeechT5EncoderLayer>> layers_;
  LayerNorm layer_norm_;
  Dropout dropout_;
  Embedding pe_k_;
};

class SpeechT5DecoderLayer;
class SpeechT5Decoder {
 public:
  SpeechT5Decoder(const Scope& scope, const SpeechT5Config& c);
  // x [B, T, D] behind what the context's cache holds; additive mask [B, 1, 1, T] or empty -> [B, T, D]
  Tensor operator()(Tensor x, const Tensor& mask, const EncodedSource& source, ForwardContext& context) const;

 private:
  std::vector<std::shared_ptr<const SpeechT5DecoderLayer>> layers_;
};

}  // namespace transom
