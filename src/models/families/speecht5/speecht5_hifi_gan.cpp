// SPDX-License-Identifier: Apache-2.0
// The HiFi-GAN (Kong et al., 2020) that makes sounds of SpeechT5's spectra. B batch, S frames, M bands.
#include "base/error.h"
#include "models/family.h"
#include "models/shared/speech/hifi_gan.h"
#include "models/shared/speech/sized_fields.h"
#include "models/shared/speech/speaking_model.h"
#include "transom/gradients.h"
#include "transom/layers.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostFramesOfHifiGan = 1 << 18;

class SpeechT5HifiGan : public Model, public Vocoder {
 public:
  SpeechT5HifiGan(const Config& config, const Scope& scope)
      : bands_(sized_field(config, "model_in_dim", 80)),
        sampling_rate_(sized_field(config, "sampling_rate", 16000, 1, 768000)),
        normalizes_(config.get_bool("normalize_before", true)),
        network_(scope, {config, bands_, {4, 4, 4, 4}, {8, 8, 8, 8}}),
        mean_(scope.buffer("mean", {DType::kFloat32, {bands_}}, Initial::zeros())),
        scale_(scope.buffer("scale", {DType::kFloat32, {bands_}}, Initial::ones())) {
    config.get_float("initializer_range", 0.01);
  }

  int64_t sampling_rate() const override { return sampling_rate_; }
  std::vector<float> samples(const Tensor& spectrum) const override {
    const NoGradient inference;
    ForwardContext context;
    prepare(context);
    return cast(waveform(unsqueeze(spectrum, 0), context), DType::kFloat32).to_vector<float>();
  }

 protected:
  std::vector<std::string> input_names() const override { return {"spectrogram"}; }
  // [B, S, M] -> [B, samples], or without the rows.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& spectrum = inputs.at("spectrogram");
    if (spectrum.rank() == 2) return {{"waveform", squeeze(waveform(unsqueeze(spectrum, 0), context), 0)}};
    return {{"waveform", waveform(spectrum, context)}};
  }

 private:
  Tensor waveform(const Tensor& spectrum, ForwardContext& context) const {
    if (spectrum.rank() != 3 || spectrum.dim(2) != bands_)
      fail("spectrogram: expected [batch, frames, {}], found {}", bands_, to_string(spectrum.shape()));
    if (spectrum.dim(0) * spectrum.dim(1) > kMostFramesOfHifiGan)
      fail("spectrogram: expected at most {} frames, found {}", kMostFramesOfHifiGan,
           spectrum.dim(0) * spectrum.dim(1));
    Tensor x = cast(spectrum, DType::kFloat32);
    if (normalizes_) x = (x - cast(mean_->value, DType::kFloat32)) / cast(scale_->value, DType::kFloat32);
    return network_(cast(permute(x, {0, 2, 1}), dtype()), {}, context);
  }

  int64_t bands_, sampling_rate_;
  bool normalizes_;
  HifiGan network_;
  std::shared_ptr<Parameter> mean_, scale_;
};

}  // namespace

static Family speecht5_hifigan_family() {
  return {.model_type = "speecht5_hifigan",
          .base_prefix = "",
          .architectures = {{"SpeechT5HifiGan",
                             {.task = HeadTask::kSpeech,
                              .pipelines = none,
                              .labels = HeadLabels::kNone,
                              .modules = none,
                              .vocabulary = none,
                              .outputs = {"waveform"}},
                             make_model<SpeechT5HifiGan>}},
          .inputs = {{{.name = "spectrogram",
                       .kind = FamilyInput::Kind::kNumbers,
                       .axes = {{.name = "frames"}, {.name = "bands", .fields = {"model_in_dim"}, .otherwise = 80}}}}},
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kSpeechT5HifiGanFamily{speecht5_hifigan_family};

}  // namespace transom
