// SPDX-License-Identifier: Apache-2.0
// VideoMAE (Tong et al., 2022): the body, with a head for classes, and with a decoder that makes up hidden tubes.
#include "models/families/videomae/videomae_body.h"
#include "models/nn/losses/loss_divisors.h"

namespace transom {
namespace {

class VideoMAEModel : public Model {
 public:
  VideoMAEModel(const Config& config, const Scope& scope) : body_(config, scope) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    std::optional<HiddenTubes> tubes;
    if (const Tensor masked = inputs.find("bool_masked_pos"); masked.defined())
      tubes.emplace(masked, body_.settings().tubes());
    const EncoderOutput encoded = body_(video_input(inputs, body_.settings()), tubes ? &*tubes : nullptr, context);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  VideoMAEBody body_;
};

class VideoMAEForVideoClassification : public Model {
 public:
  VideoMAEForVideoClassification(const Config& config, const Scope& scope)
      : videomae_(config, scope / "videomae"),
        classifier_(scope / "classifier", vit().hidden_size, vit().num_labels, vit().new_weights()) {
    constexpr double kEpsilon = 1e-5;  // whatever layer_norm_eps says
    if (videomae_.settings().use_mean_pooling) fc_norm_.emplace(scope / "fc_norm", vit().hidden_size, kEpsilon);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = videomae_(inputs, context);
    const Tensor& states = encoded.last_hidden_state;
    const Tensor pooled = fc_norm_ ? (*fc_norm_)(mean(states, {1}), context) : squeeze(slice(states, 1, 0, 1), 1);
    NamedTensors outputs =
        sequence_classification_outputs(classifier_(pooled, context), inputs, vit().problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  const ViTConfig& vit() const { return videomae_.settings().vit; }
  VideoMAEBody videomae_;
  std::optional<LayerNorm> fc_norm_;
  Linear classifier_;
};

// The decoder sees all tubes, and makes up the numbers of the hidden ones, which stand last.
class VideoMAEForPreTraining : public Model {
 public:
  VideoMAEForPreTraining(const Config& config, const Scope& scope)
      : config_(config),
        decoder_config_(decoder_config(config)),
        norm_pix_loss_(config.get_bool("norm_pix_loss", true)),
        videomae_(config, scope / "videomae"),
        encoder_to_decoder_(scope / "encoder_to_decoder", config_.vit.hidden_size, decoder_config_.hidden_size,
                            config_.vit.new_weights(false)),
        mask_token_(scope.parameter("mask_token", {1, 1, decoder_config_.hidden_size}, Initial::zeros())),
        places_(sinusoids_of_places(config_.tubes(), decoder_config_.hidden_size)),
        norm_(scope / "decoder" / "norm", decoder_config_.hidden_size, 1e-5),
        head_(scope / "decoder" / "head", decoder_config_.hidden_size, config_.numbers(), config_.vit.new_weights()) {
    if (!norm_pix_loss_ && config_.vit.num_channels != 3)
      fail("{}: norm_pix_loss = false: expected 3 channels, found {}", config.where(), config_.vit.num_channels);
    for (int64_t i = 0; i < decoder_config_.num_hidden_layers; ++i)
      layers_.emplace_back(scope / "decoder" / "decoder_layers" / i, decoder_config_);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& video = video_input(inputs, config_);
    const HiddenTubes tubes(inputs.at("bool_masked_pos"), config_.tubes());
    const EncoderOutput encoded = videomae_(video, &tubes, context);
    const Tensor seen = encoder_to_decoder_(encoded.last_hidden_state, context);
    const Shape all{video.dim(0), config_.tubes(), decoder_config_.hidden_size};
    const Tensor places = broadcast_to(cast(places_, seen.dtype()), all);
    const Tensor hidden = cast(mask_token_->value, seen.dtype()) + tubes_at(places, tubes.hidden);
    const Tensor x = concatenate({seen + tubes_at(places, tubes.seen), hidden}, 1);
    const Tensor decoded = through_layers(layers_, x, Tensor(), context).last_hidden_state;
    const Tensor last = slice(decoded, 1, seen.dim(1), config_.tubes());
    const Tensor logits = head_(norm_(last, context), context);
    const Tensor distance = cast(logits, DType::kFloat32) - tubes_at(wanted_numbers(video), tubes.hidden);
    NamedTensors outputs = with_loss(mean_of_all(distance * distance, context), {{"logits", logits}});
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  static ViTConfig decoder_config(const Config& config) {
    ViTConfig c = VideoMAEConfig(config).vit;
    c.hidden_size = positive(config, "decoder_hidden_size", 384);
    c.num_hidden_layers = config.get_int("decoder_num_hidden_layers", 4);
    c.num_attention_heads = positive(config, "decoder_num_attention_heads", 6);
    c.intermediate_size = config.get_int("decoder_intermediate_size", 1536);
    if (c.hidden_size % c.num_attention_heads != 0)
      fail("{}: decoder_hidden_size {} is not divisible by decoder_num_attention_heads {}", config.where(),
           c.hidden_size, c.num_attention_heads);
    return c;
  }

  // What the decoder learns to give: colours from 0 to 1, of each tube about their mean, in their deviation. [B, N, .]
  Tensor wanted_numbers(const Tensor& video) const {
    Tensor frames = cast(video, DType::kFloat32).detach();
    if (config_.vit.num_channels == 3) {
      const auto of_channels = [](std::vector<float> values) { return Tensor::from(values, {1, 1, 3, 1, 1}); };
      frames = frames * of_channels({0.229f, 0.224f, 0.225f}) + of_channels({0.485f, 0.456f, 0.406f});
    }
    const int64_t B = video.dim(0), N = config_.tubes(), C = config_.vit.num_channels, pixels = config_.numbers() / C;
    Tensor tubes = reshape(cut_into_tubes(frames, config_), {B, N, pixels, C});
    if (norm_pix_loss_) {
      const Tensor centred = tubes - mean(tubes, {2}, true);
      const Tensor variance =
          mean(centred * centred, {2}, true) * (static_cast<double>(pixels) / static_cast<double>(pixels - 1));
      tubes = centred / (sqrt(variance) + 1e-6);
    }
    return reshape(tubes, {B, N, config_.numbers()});
  }

  VideoMAEConfig config_;
  ViTConfig decoder_config_;
  bool norm_pix_loss_;
  VideoMAEBody videomae_;
  Linear encoder_to_decoder_;
  std::shared_ptr<Parameter> mask_token_;
  Tensor places_;
  std::vector<ViTLayer> layers_;
  LayerNorm norm_;
  Linear head_;
};

FamilyInput video_pixels() {
  FamilyInput pixels = sized_pixels();
  pixels.axes.insert(pixels.axes.begin(), {.name = "num_frames", .fields = {"num_frames"}, .otherwise = 16});
  return pixels;
}

FamilyHead video_head() {
  FamilyHead head = image_classification_head({"fc_norm", "classifier"});
  head.task = HeadTask::kVideoClassification;
  head.pipelines = std::vector<std::string>{"video-classification"};
  return head;
}

FamilyHead video_pretraining_head() {
  FamilyHead head = masked_image_head({"encoder_to_decoder", "mask_token", "decoder"});
  head.pipelines = std::vector<std::string>{"pretraining"};
  head.labels = HeadLabels::kNone;  // it learns from the video alone
  head.outputs = std::vector<std::string>{"logits"};
  return head;
}

}  // namespace

static Family videomae_family() {
  return {
      .model_type = "videomae",
      .base_prefix = "videomae",
      .architectures = {{"VideoMAEModel", body_head({}), make_model<VideoMAEModel>},
                        {"VideoMAEForVideoClassification", video_head(), make_model<VideoMAEForVideoClassification>},
                        {"VideoMAEForPreTraining", video_pretraining_head(), make_model<VideoMAEForPreTraining>,
                         FamilyInputs{video_pixels(),
                                      {.name = "bool_masked_pos",
                                       .kind = FamilyInput::Kind::kHiddenPatches,
                                       .axes = {{.name = "num_patches"}}}}}},
      .inputs = {video_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "VideoMAE", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kVideoMAEFamily{videomae_family};

}  // namespace transom
