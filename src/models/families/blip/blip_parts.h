// SPDX-License-Identifier: Apache-2.0
// The parts of BLIP (Li et al., 2022): a ViT, and a BERT whose layers may also look at the states of another encoder,
// and which reads a text both ways or writes it. B batch, T tokens, S places of the source, D hidden.
#pragma once

#include <vector>

#include "models/families/bert/bert_encoder.h"
#include "models/families/clip/clip_towers.h"
#include "models/shared/encoder_decoder.h"

namespace transom {

struct BlipConfig {
  explicit BlipConfig(const Config& config);
  CLIPVisionConfig vision;
  BertConfig text;
  int64_t bos_token_id, sep_token_id;  // between which a text is written
};

class BlipVisionLayer {
 public:
  BlipVisionLayer(const Scope& scope, const CLIPVisionConfig& c);
  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  Linear qkv_, projection_;
  LayerNorm layer_norm1_;
  Linear fc1_, fc2_;
  LayerNorm layer_norm2_;
  Dropout attention_dropout_;
};

class BlipVisionTower {
 public:
  BlipVisionTower(const Scope& scope, const CLIPVisionConfig& c);
  CLIPTowerOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor positions(Extents size, const ForwardContext& context) const;

  CLIPVisionConfig c_;
  Extents grid_;
  std::shared_ptr<Parameter> class_embedding_, position_embedding_;
  PatchEmbeddings patch_embedding_;
  std::vector<BlipVisionLayer> layers_;
  LayerNorm post_layernorm_;
};

// Attention with the layer and the norm behind it.
class BlipTextAttention {
 public:
  // `source_width`: of what keys and values are made of.
  BlipTextAttention(const Scope& scope, const BertConfig& c, int64_t source_width);
  // x sees itself, all of it.
  Tensor both_ways(const Tensor& x, const Tensor& mask, ForwardContext& context) const;
  // x sees itself up to each place; with a cache also what came before.
  Tensor causal(int64_t layer, const Tensor& x, const DecoderInputs& in, ForwardContext& context) const;
  // x sees the source.
  Tensor across(int64_t layer, const Tensor& x, const EncodedSource& source, ForwardContext& context) const;

 private:
  Tensor heads(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }
  Tensor behind(const Tensor& mixed, const Tensor& x, ForwardContext& context) const;

  std::string path_;
  int64_t heads_;
  double scale_;
  Linear query_, key_, value_, dense_;
  LayerNorm norm_;
  Dropout attention_dropout_, dropout_;
};

class BlipTextLayer {
 public:
  BlipTextLayer(const Scope& scope, const BlipConfig& c, int64_t layer);
  Tensor reading(const Tensor& x, const Tensor& mask, const EncodedSource& source, ForwardContext& context) const;
  Tensor writing(const Tensor& x, const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const;

 private:
  Tensor transformed(const Tensor& x, ForwardContext& context) const;

  std::string path_;
  int64_t layer_;
  std::string activation_;
  BlipTextAttention attention_, crossattention_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

class BlipText {
 public:
  BlipText(const Scope& scope, const BlipConfig& c);
  // Each token sees all others, and the source where it has states.
  DecoderOutput read(const NamedTensors& inputs, const EncodedSource& source, ForwardContext& context) const;
  // Each token sees those before it, and the source.
  DecoderOutput write(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const;
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  Tensor embedded(const Tensor& ids, const Tensor& embeds, const Tensor& positions, ForwardContext& context) const;

  int64_t max_positions_;
  Embedding word_embeddings_, position_embeddings_;
  LayerNorm norm_;
  Dropout dropout_;
  std::vector<BlipTextLayer> layers_;
};

}  // namespace transom
