// SPDX-License-Identifier: Apache-2.0
// AST (Gong et al., 2021): ViT on the spectrogram of a sound, whose patches overlap. B batch, T frames, M mel bins,
// D hidden.
#include "models/families/vit/vit_body.h"

namespace transom {
namespace {

constexpr int64_t kTokensBeforePatches = 2;  // of the class and of a teacher

struct AstConfig {
  explicit AstConfig(const Config& config)
      : body(config),
        patch(body.patch_size),
        strides{positive(config, "frequency_stride", 10), positive(config, "time_stride", 10)},
        frames(positive(config, "max_length", 1024)),
        mel_bins(positive(config, "num_mel_bins", 128)) {
    if (patch[0] != patch[1])
      fail("config.json: patch_size: expected one number for both sides, found {} and {}", patch[0], patch[1]);
    if (patch[0] < 1 || patch[0] > mel_bins || patch[0] > frames || frames > int64_t{1} << 20 ||
        mel_bins > int64_t{1} << 16)
      fail("config.json: patch_size: expected 1 to num_mel_bins {} and max_length {}, found {}", mel_bins, frames,
           patch[0]);
  }
  int64_t patches() const { return ((mel_bins - patch[0]) / strides[0] + 1) * ((frames - patch[1]) / strides[1] + 1); }

  ViTConfig body;
  Extents patch, strides;  // along mel bins and frames
  int64_t frames, mel_bins;
};

class AstBody {
 public:
  AstBody(const Scope& scope, const AstConfig& config)
      : c_(config),
        cls_token_(embedding(scope, "cls_token", 1)),
        distillation_token_(embedding(scope, "distillation_token", 1)),
        position_embeddings_(embedding(scope, "position_embeddings", kTokensBeforePatches + config.patches())),
        projection_(scope / "embeddings" / "patch_embeddings" / "projection", 1, config.body.hidden_size,
                    {config.patch[0], config.patch[1]},
                    {.strides = {config.strides[0], config.strides[1]}, .deviation = config.body.initializer_range}),
        dropout_(config.body.hidden_dropout_prob),
        layernorm_(scope / "layernorm", config.body.hidden_size, config.body.layer_norm_eps) {
    for (int64_t i = 0; i < c_.body.num_hidden_layers; ++i)
      layers_.emplace_back(scope / "encoder" / "layer" / i, c_.body);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor& sound = inputs.at("input_values");
    if (sound.rank() != 3 || sound.dim(1) != c_.frames || sound.dim(2) != c_.mel_bins)
      fail("input_values: expected [batch, {}, {}], found {}", c_.frames, c_.mel_bins, to_string(sound.shape()));
    const Tensor picture = unsqueeze(permute(sound, {0, 2, 1}), 1);  // [B, 1, M, T]
    const Tensor patches = permute(flatten(projection_(picture, context), 2, 3), {0, 2, 1});
    const Shape first{patches.dim(0), 1, patches.dim(2)};
    const Tensor x = concatenate({broadcast_to(cast(cls_token_->value, patches.dtype()), first),
                                  broadcast_to(cast(distillation_token_->value, patches.dtype()), first), patches},
                                 1) +
                     position_embeddings_->value;
    EncoderOutput output = through_layers(layers_, dropout_(x, context), Tensor(), context);
    output.last_hidden_state = layernorm_(output.last_hidden_state, context);
    return output;
  }

  // The mean of the two tokens before the patches: [B, T, D] -> [B, D].
  static Tensor pooled(const Tensor& states) {
    const auto token = [&](int64_t place) { return squeeze(slice(states, 1, place, place + 1), 1); };
    return (token(0) + token(1)) / 2.0;
  }

 private:
  std::shared_ptr<Parameter> embedding(const Scope& scope, const std::string& name, int64_t tokens) const {
    return (scope / "embeddings").parameter(name, {1, tokens, c_.body.hidden_size}, Initial::zeros());
  }

  AstConfig c_;
  std::shared_ptr<Parameter> cls_token_, distillation_token_, position_embeddings_;
  Convolution projection_;
  Dropout dropout_;
  std::vector<ViTLayer> layers_;
  LayerNorm layernorm_;
};

class AstModel : public Model {
 public:
  AstModel(const Config& config, const Scope& scope) : body_(scope, AstConfig(config)) {}

 protected:
  std::vector<std::string> input_names() const override { return {"input_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = body_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", encoded.last_hidden_state},
                         {"pooler_output", AstBody::pooled(encoded.last_hidden_state)}};
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  AstBody body_;
};

class AstForAudioClassification : public Model {
 public:
  AstForAudioClassification(const Config& config, const Scope& scope)
      : c_(config),
        body_(scope / "audio_spectrogram_transformer", c_),
        layernorm_(scope / "classifier" / "layernorm", c_.body.hidden_size, c_.body.layer_norm_eps),
        dense_(scope / "classifier" / "dense", c_.body.hidden_size, c_.body.num_labels, c_.body.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"input_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput encoded = body_(inputs, context);
    const Tensor logits = dense_(layernorm_(AstBody::pooled(encoded.last_hidden_state), context), context);
    NamedTensors outputs = sequence_classification_outputs(logits, inputs, c_.body.problem_type, context);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  AstConfig c_;
  AstBody body_;
  LayerNorm layernorm_;
  Linear dense_;
};

FamilyInput ast_spectrum() {
  return {.name = "input_values",
          .kind = FamilyInput::Kind::kSpectrum,
          .axes = {{.name = "max_length", .fields = {"max_length"}, .otherwise = 1024},
                   {.name = "num_mel_bins", .fields = {"num_mel_bins"}, .otherwise = 128}}};
}

}  // namespace

static Family audio_spectrogram_transformer_family() {
  return {.model_type = "audio-spectrogram-transformer",
          .base_prefix = "audio_spectrogram_transformer",
          .architectures = {{"ASTModel", body_head({}, {"last_hidden_state", "pooler_output"}), make_model<AstModel>},
                            {"ASTForAudioClassification",
                             {.task = HeadTask::kAudioClassification,
                              .pipelines = {"audio-classification"},
                              .labels = HeadLabels::kClass,
                              .modules = {"classifier"},
                              .vocabulary = none,
                              .outputs = {"logits"}},
                             make_model<AstForAudioClassification>}},
          .inputs = {ast_spectrum()},
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

const RegisterFamilies kAudioSpectrogramTransformerFamily{audio_spectrogram_transformer_family};

}  // namespace transom
