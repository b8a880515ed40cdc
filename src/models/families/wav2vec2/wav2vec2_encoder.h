// SPDX-License-Identifier: Apache-2.0
// The body of Wav2Vec 2.0 (Baevski et al., 2020), which HuBERT (Hsu et al., 2021) and WavLM (Chen et al., 2022) share:
// convolutions over the wave, a convolution for positions, and a transformer. B batch, N samples, T frames, C channels,
// D hidden.
#pragma once

#include <optional>

#include "files/config/config.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/losses/ctc.h"
#include "models/nn/spec_augment.h"
#include "models/nn/vision/convolution.h"
#include "models/shared/encoder_body.h"

namespace transom {

enum class Wav2Vec2Kind { kWav2Vec2, kHubert, kWavLM };

struct Wav2Vec2Config {
  Wav2Vec2Config(const Config& config, Wav2Vec2Kind kind);
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
  std::string hidden_act, feat_extract_norm, feat_extract_activation;
  double hidden_dropout, activation_dropout, attention_dropout, feat_proj_dropout, final_dropout, layerdrop,
      initializer_range, layer_norm_eps;
  std::vector<int64_t> conv_dim, conv_stride, conv_kernel;
  bool conv_bias, do_stable_layer_norm, use_weighted_layer_sum;
  int64_t num_conv_pos_embeddings, num_conv_pos_embedding_groups, classifier_proj_size, num_labels;
  bool feat_proj_layer_norm = true, conv_pos_batch_norm = false;  // of HuBERT
  Wav2Vec2Kind kind;
  int64_t num_buckets = 0, max_bucket_distance = 0;  // of WavLM
  SpanMasking time_masking, feature_masking;
  bool apply_spec_augment;
  CtcOptions ctc;
  int64_t adapter_attn_dim;  // 0: no adapters in the layers
  bool add_adapter = false;  // behind the encoder
  int64_t adapter_kernel_size, adapter_stride, num_adapter_layers, output_hidden_size;

  Linear::Options new_weights() const { return {.deviation = initializer_range}; }
};

struct Wav2Vec2Output {
  Tensor last_hidden_state;           // [B, T, D]
  Tensor extract_features;            // [B, T, C], normed
  std::vector<Tensor> hidden_states;  // what goes into the first layer, then each layer's
};

class Wav2Vec2LayerStack;

class Wav2Vec2Encoder {
 public:
  Wav2Vec2Encoder(const Scope& scope, const Wav2Vec2Config& config);
  // input_values [B, N], attention_mask [B, N] or none, mask_time_indices [B, T] or none: frames to be masked.
  Wav2Vec2Output operator()(const NamedTensors& inputs, ForwardContext& context) const;
  // The number of frames that come from so many samples, i64 [B]; `adapted`: behind the adapter.
  Tensor frames_of(Tensor samples, bool adapted) const;
  // bool [B, T]: the frames that come from the samples that the mask counts.
  Tensor frame_mask(const Tensor& attention_mask, int64_t frames) const;

 private:
  std::shared_ptr<const Wav2Vec2LayerStack> stack_;
};

Architecture wav2vec2_for_pretraining();

}  // namespace transom
