// SPDX-License-Identifier: Apache-2.0
#include "models/families/speecht5/speecht5_speech.h"

#include "base/error.h"
#include "models/shared/speech/hifi_gan.h"
#include "transom/ops.h"

namespace transom {

Tensor SpeechT5Masks::next(const SpeechT5Config& c, int64_t first, int64_t T, ForwardContext& context) {
  const int64_t U = c.prenet_units;
  if (context.training)
    return dropout(full({T - first, U}, 1, DType::kFloat32), next_random_key(context), c.prenet_dropout);
  const double kept = 1 - c.prenet_dropout;
  const auto scale = static_cast<float>(1 / kept);
  std::vector<float> values;
  values.reserve(static_cast<size_t>((T - first) * U));
  for (int64_t i = 0; i < T * U; ++i) {
    const float value = generator_.uniform64() < kept ? scale : 0.0F;
    if (i >= first * U) values.push_back(value);
  }
  return Tensor::from(values, {T - first, U});
}

SpeechT5SpeechPrenet::SpeechT5SpeechPrenet(const Scope& scope, const SpeechT5Config& c)
    : c_(c),
      final_layer_(scope / "final_layer", c.prenet_units, c.hidden_size, c.new_weights()),
      encode_positions_(scope / "encode_positions", c, c.max_speech_positions,
                        "steps of the decoder (max_speech_positions)"),
      speaker_embeds_layer_(scope / "speaker_embeds_layer", c.speaker_width + c.hidden_size, c.hidden_size,
                            c.new_weights()) {
  for (int64_t i = 0; i < c.prenet_layers; ++i)
    layers_.emplace_back(scope / "layers" / i, i == 0 ? c.num_mel_bins : c.prenet_units, c.prenet_units,
                         c.new_weights());
}

Tensor SpeechT5SpeechPrenet::operator()(const Tensor& frames, const Tensor& speaker, int64_t first,
                                        SpeechT5Masks& masks, ForwardContext& context) const {
  Tensor x = frames;
  for (const Linear& layer : layers_) {
    x = relu(layer(x, context));
    if (c_.prenet_dropout == 0) continue;
    const Tensor mask = masks.next(c_, first, first + x.dim(1), context);
    x = x * cast(unsqueeze(mask, 0), x.dtype());
  }
  x = encode_positions_(final_layer_(x, context), first, context);
  if (!speaker.defined()) return x;
  const int64_t B = x.dim(0), T = x.dim(1), E = c_.speaker_width;
  if (speaker.rank() != 2 || speaker.dim(1) != E || (speaker.dim(0) != B && speaker.dim(0) != 1))
    fail("speaker_embeddings: expected [{}, {}], found {}", B, E, to_string(speaker.shape()));
  const Tensor voice = cast(speaker, DType::kFloat32);
  const Tensor length = maximum(sqrt(reduce_sum(voice * voice, {1}, true)), constant(1e-12));
  const Tensor all = broadcast_to(unsqueeze(cast(voice / length, x.dtype()), 1), {B, T, E});
  return relu(speaker_embeds_layer_(concatenate({x, all}, 2), context));
}

class SpeechT5PostnetLayer {
 public:
  SpeechT5PostnetLayer(const Scope& scope, const SpeechT5Config& c, int64_t layer)
      : is_last_(layer == c.postnet_layers - 1),
        conv_(same_length_convolution(scope / "conv", layer == 0 ? c.num_mel_bins : c.postnet_units,
                                      is_last_ ? c.num_mel_bins : c.postnet_units, c.postnet_window, 1, 1, false)),
        batch_norm_(scope / "batch_norm", is_last_ ? c.num_mel_bins : c.postnet_units),
        dropout_(c.postnet_dropout) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {  // [B, C, F]
    const Tensor y = batch_norm_(conv_(x, context), context);
    return dropout_(is_last_ ? y : tanh(y), context);
  }

 private:
  bool is_last_;
  Convolution conv_;
  BatchNorm batch_norm_;
  Dropout dropout_;
};

SpeechT5Postnet::SpeechT5Postnet(const Scope& scope, const SpeechT5Config& c)
    : bands_(c.num_mel_bins),
      feat_out_(scope / "feat_out", c.hidden_size, c.num_mel_bins * c.reduction_factor, c.new_weights()),
      prob_out_(scope / "prob_out", c.hidden_size, c.reduction_factor, c.new_weights()) {
  for (int64_t i = 0; i < c.postnet_layers; ++i)
    layers_.push_back(std::make_shared<SpeechT5PostnetLayer>(scope / "layers" / i, c, i));
}

SpeechT5Spectra SpeechT5Postnet::spectra(const Tensor& hidden, ForwardContext& context) const {
  const int64_t B = hidden.dim(0);
  return {reshape(feat_out_(hidden, context), {B, -1, bands_}), reshape(prob_out_(hidden, context), {B, -1})};
}

Tensor SpeechT5Postnet::finished(const Tensor& before, ForwardContext& context) const {
  Tensor x = permute(before, {0, 2, 1});
  for (const auto& layer : layers_) x = (*layer)(x, context);
  return before + permute(x, {0, 2, 1});
}

}  // namespace transom
