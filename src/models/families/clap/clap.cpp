// SPDX-License-Identifier: Apache-2.0
// CLAP (Wu et al., 2023): which text belongs to which sound. RoBERTa reads texts, HTS-AT hears sounds. Spectrograms of
// several cuts of a long sound (enable_fusion) are refused. B rows, E width of what both are projected to.
#include <cmath>

#include "base/error.h"
#include "models/families/bert/bert_encoder.h"
#include "models/families/clap/clap_audio.h"
#include "models/families/clip/clip_towers.h"
#include "models/family.h"
#include "models/nn/losses/losses.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

constexpr const char* kClapText = R"({"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1,
                                      "pad_token_id": 1})";

class ClapProjection {
 public:
  ClapProjection(const Scope& scope, int64_t width, int64_t projected, std::string act, double deviation)
      : activation_(std::move(act)),
        linear1_(scope / "linear1", width, projected, {.deviation = deviation}),
        linear2_(scope / "linear2", projected, projected, {.deviation = deviation}) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return linear2_(activation(activation_, linear1_(x, context)), context);
  }

 private:
  std::string activation_;
  Linear linear1_, linear2_;
};

class ClapModel : public Model {
 public:
  ClapModel(const Config& config, const Scope& scope)
      : ClapModel(config, with_defaults(config.get_object("text_config"), kClapText), scope) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = clip_text_names();
    names.push_back("input_features");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor heard = audio_model_(inputs.at("input_features"), context);
    const Tensor read = pooler_(text_model_(clip_text_inputs(inputs), context).last_hidden_state, context);
    const Tensor audio_embeds = to_unit_length(audio_projection_(heard, context)),
                 text_embeds = to_unit_length(text_projection_(read, context));
    const Tensor cosines = dot_general(text_embeds, audio_embeds, {{}, {}, {1}, {1}}, context.computing);
    const Tensor per_text = cosines * exp(logit_scale_t_->value), per_sound = cosines * exp(logit_scale_a_->value);
    // As in Transformers both losses look for the sound of each text; their scales differ.
    const auto of_rows = [&](const Tensor& rows) { return mean_cross_entropy(rows, iota({rows.dim(0)}, 0), context); };
    return with_loss(context.return_loss ? (of_rows(per_text) + of_rows(per_sound)) * 0.5 : Tensor(),
                     {{"logits_per_audio", permute(per_sound, {1, 0})},
                      {"logits_per_text", per_text},
                      {"text_embeds", text_embeds},
                      {"audio_embeds", audio_embeds}});
  }

 private:
  ClapModel(const Config& config, const Config& text, const Scope& scope)
      : text_config_(text),
        audio_config_(config.get_object("audio_config")),
        text_model_(scope / "text_model", text_config_, /*positions_after_padding=*/true),
        pooler_(scope / "text_model" / "pooler", text_config_),
        audio_model_(scope / "audio_model" / "audio_encoder", audio_config_),
        text_projection_(scope / "text_projection", text_config_.hidden_size, text.get_int("projection_dim", 512),
                         text.get_string("projection_hidden_act", "relu"), text_config_.initializer_range),
        audio_projection_(scope / "audio_projection", audio_config_.hidden_size, audio_config_.projection_dim,
                          audio_config_.projection_hidden_act, audio_config_.stages.deviation),
        logit_scale_a_(scale(config, scope, "logit_scale_a")),
        logit_scale_t_(scale(config, scope, "logit_scale_t")) {
    config.get_json("projection_hidden_act");  // its parts say their own
    if (text.get_int("projection_dim", 512) != audio_config_.projection_dim)
      fail("config.json: projection_dim: expected the same of texts and sounds, found {} and {}",
           text.get_int("projection_dim", 512), audio_config_.projection_dim);
  }
  static std::shared_ptr<Parameter> scale(const Config& config, const Scope& scope, const std::string& name) {
    const double initial = config.get_float("logit_scale_init_value", 1 / 0.07);
    if (!(initial > 0)) fail("config.json: logit_scale_init_value: expected a number above 0, found {}", initial);
    return scope.parameter(name, {}, Initial::constant(std::log(initial)));
  }

  BertConfig text_config_;
  ClapAudioConfig audio_config_;
  BertEncoder text_model_;
  BertPooler pooler_;
  ClapAudioEncoder audio_model_;
  ClapProjection text_projection_, audio_projection_;
  std::shared_ptr<Parameter> logit_scale_a_, logit_scale_t_;
};

FamilyInputs clap_inputs() {
  FamilyInputs inputs = text_inputs();
  inputs[0].table.fields = {"text_config.vocab_size"};
  inputs.push_back(
      {.name = "input_features",
       .kind = FamilyInput::Kind::kSpectrum,
       .axes = {{.name = "channels", .fields = {"audio_config.patch_embed_input_channels"}, .otherwise = 1},
                {.name = "frames", .fields = {"audio_config.spec_size"}, .otherwise = 256},
                {.name = "num_mel_bins", .fields = {"audio_config.num_mel_bins"}, .otherwise = 64}}});
  return inputs;
}

}  // namespace

static Family clap_family() {
  return {.model_type = "clap",
          .base_prefix = "clap",
          .architectures = {{"ClapModel",
                             {.task = HeadTask::kContrastive,
                              .pipelines = {"zero-shot-audio-classification"},
                              .labels = HeadLabels::kPairs,
                              .modules = {"text_projection", "audio_projection", "logit_scale_a", "logit_scale_t"},
                              .vocabulary = none,
                              .outputs = {"logits_per_audio", "logits_per_text", "text_embeds", "audio_embeds"}},
                             make_model<ClapModel>}},
          .inputs = clap_inputs(),
          .processors = {.tokenizer = "Roberta",
                         .image_processor = none,
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kClapFamily{clap_family};

}  // namespace transom
