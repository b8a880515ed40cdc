// SPDX-License-Identifier: Apache-2.0
#include "models/families/llava/llava_parts.h"

#include "models/shared/record_parts.h"

namespace transom {

const char* const kLlavaTower = R"({"vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024,
  "intermediate_size": 4096, "patch_size": 14, "image_size": 336, "num_hidden_layers": 24, "num_attention_heads": 16,
  "projection_dim": 768}})";

namespace {

Linear::Options llava_linear(const Config& config) {
  return {.bias = config.get_bool("multimodal_projector_bias", true)};
}

// What predicts tokens, by its names in checkpoints of Transformers 4 and 5.
FamilyHead llava_writing_head() {
  FamilyHead head = causal_lm_head({"language_model.lm_head", "lm_head"}, {"language_model.lm_head", "lm_head"});
  head.pipelines = {"text-generation", "image-text-to-text"};
  head.vocabulary_size = {"text_config.vocab_size", "vocab_size"};
  return head;
}

template <DecoderHead kind>
Architecture llava_class(const std::string& name, FamilyHead head, MakeDecoder make) {
  return {name, std::move(head), [make](const Config& config, const Scope& scope) {
            return make_decoder_model(config, scope, make, "", kind);  // its parts stand beside the head
          }};
}

}  // namespace

LlavaProjector::LlavaProjector(const Config& config, const Scope& scope, int64_t in, int64_t width)
    : activation_(config.get_string("projector_hidden_act", "gelu")),
      linear_1_(scope / "linear_1", in, width, llava_linear(config)),
      linear_2_(scope / "linear_2", width, width, llava_linear(config)) {}

Tensor LlavaProjector::operator()(const Tensor& seen, ForwardContext& context) const {
  return linear_2_(activation(activation_, linear_1_(seen, context)), context);
}

int64_t llava_image_token(const Config& config) {
  return config.get_int("image_token_index", config.get_int("image_token_id", kLlavaImageToken));
}

Family llava_like(const std::string& type, const std::string& name, MakeDecoder make, FamilyInputs pixels) {
  FamilyInputs inputs = placed_text_inputs();
  for (FamilyInput& input : inputs)
    if (input.kind == FamilyInput::Kind::kTokens) input.table.fields = {"text_config.vocab_size", "vocab_size"};
  for (FamilyInput& input : pixels) {
    input.needed = false;
    input.exported = FamilyInput::Export::kNever;  // a file of ONNX has the decoder's part
    inputs.push_back(input);
  }
  return {.model_type = type,
          .base_prefix = "model",
          .architectures = {llava_class<DecoderHead::kCausalLM>(name + "ForConditionalGeneration", llava_writing_head(),
                                                                make),
                            llava_class<DecoderHead::kNone>(name + "Model", body_head({}), make)},
          .inputs = inputs,
          .processors = {.tokenizer = "Llama",
                         .image_processor = name,
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false,
                         .image_tokens = ImageTokens{.token = "<image>",
                                                     .id_fields = {"image_token_index", "image_token_id"},
                                                     .id = kLlavaImageToken,
                                                     .processor = name}},
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

}  // namespace transom
