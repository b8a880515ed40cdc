// SPDX-License-Identifier: Apache-2.0
// LLaVA (Liu et al., 2023): states of a tower that sees, through two linear layers, in the places of a decoder's text.
#include "base/json/json.h"
#include "models/shared/record_parts.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/vision_tower.h"

namespace transom {
namespace {

// Of llava-1.5, which Transformers takes where a configuration says nothing of the tower.
constexpr char kTower[] = R"({"vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024,
  "intermediate_size": 4096, "patch_size": 14, "image_size": 336, "num_hidden_layers": 24, "num_attention_heads": 16,
  "projection_dim": 768}})";
constexpr int64_t kImageToken = 32000;

class LlavaReader : public PictureReader {
 public:
  LlavaReader(const Config& config, const Scope& scope, int64_t width)
      : tower_(part_config(config, "vision_config", "clip_vision_model"), VisionFeatures(config),
               scope / "vision_tower"),
        activation_(config.get_string("projector_hidden_act", "gelu")),
        linear_1_(scope / "multi_modal_projector" / "linear_1", tower_.width(), width, options(config)),
        linear_2_(scope / "multi_modal_projector" / "linear_2", width, width, options(config)) {}

  Tensor operator()(const Tensor& pixel_values, ForwardContext& context) const override {
    return linear_2_(activation(activation_, linear_1_(tower_(pixel_values, context), context)), context);
  }

 private:
  static Linear::Options options(const Config& config) {
    return {.bias = config.get_bool("multimodal_projector_bias", true)};
  }
  VisionTower tower_;
  std::string activation_;
  Linear linear_1_, linear_2_;
};

std::unique_ptr<Decoder> make_llava(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kTower);
  std::unique_ptr<Model> text =
      make_part(part_config(config, "text_config", "llama"), "feature-extraction", scope / "language_model" / "model");
  auto reader = std::make_unique<LlavaReader>(config, scope, body_of(*text).traits().width);
  return make_vision_language_decoder(
      std::move(reader), std::move(text),
      {.image_token = config.get_int("image_token_index", config.get_int("image_token_id", kImageToken)),
       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false),
       .head = "language_model.lm_head"});
}

// What predicts tokens, by its names in checkpoints of Transformers 4 and 5.
FamilyHead writing_head() {
  FamilyHead head = causal_lm_head({"language_model.lm_head", "lm_head"}, {"language_model.lm_head", "lm_head"});
  head.pipelines = {"text-generation", "image-text-to-text"};
  head.vocabulary_size = {"text_config.vocab_size", "vocab_size"};
  return head;
}

FamilyInputs llava_inputs() {
  FamilyInputs inputs = placed_text_inputs();
  for (FamilyInput& input : inputs)
    if (input.kind == FamilyInput::Kind::kTokens) input.table.fields = {"text_config.vocab_size", "vocab_size"};
  inputs.push_back(sized_pixels("vision_config"));
  inputs.back().needed = false;
  inputs.back().exported = FamilyInput::Export::kNever;  // a file of ONNX has the decoder's part
  return inputs;
}

template <DecoderHead kind>
std::unique_ptr<Model> make_llava_model(const Config& config, const Scope& scope) {
  return make_decoder_model(config, scope, make_llava, "", kind);  // its parts stand beside the head
}

Family llava_family() {
  return {.model_type = "llava",
          .base_prefix = "model",
          .architectures = {{"LlavaForConditionalGeneration", writing_head(), make_llava_model<DecoderHead::kCausalLM>},
                            {"LlavaModel", body_head({}), make_llava_model<DecoderHead::kNone>}},
          .inputs = llava_inputs(),
          .processors = {.tokenizer = "Llama",
                         .image_processor = "Llava",
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false,
                         .image_tokens = ImageTokens{.token = "<image>",
                                                     .id_fields = {"image_token_index", "image_token_id"},
                                                     .id = kImageToken}},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .renamed_parts = {{"language_model.model.", "language_model."},
                                        {"language_model.lm_head.", "lm_head."},
                                        {"vision_tower.vision_model.", "vision_tower."}}},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kLlavaFamily{llava_family};

}  // namespace
}  // namespace transom
