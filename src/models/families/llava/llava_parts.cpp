// SPDX-License-Identifier: Apache-2.0
#include "models/families/llava/llava_parts.h"

#include <utility>

#include "models/vision_language/picture_record.h"

namespace transom {

const char* const kLlavaTower = R"({"vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024,
  "intermediate_size": 4096, "patch_size": 14, "image_size": 336, "num_hidden_layers": 24, "num_attention_heads": 16,
  "projection_dim": 768}})";

namespace {

Linear::Options llava_linear(const Config& config) {
  return {.bias = config.get_bool("multimodal_projector_bias", true)};
}

}  // namespace

LlavaProjector::LlavaProjector(const Config& config, const Scope& scope, int64_t in, int64_t width)
    : activation_(config.get_string("projector_hidden_act", "gelu")),
      linear_1_(scope / "linear_1", in, width, llava_linear(config)),
      linear_2_(scope / "linear_2", width, width, llava_linear(config)) {}

Tensor LlavaProjector::operator()(const Tensor& seen, ForwardContext& context) const {
  return linear_2_(activation(activation_, linear_1_(seen, context)), context);
}

// Names of Transformers 4 and 5.
std::vector<RenamedPart> llava_renamed_parts() {
  return {{"language_model.model.", "language_model."},
          {"language_model.lm_head.", "lm_head."},
          {"vision_tower.vision_model.", "vision_tower."}};
}

int64_t llava_image_token(const Config& config, int64_t otherwise) {
  return config.get_int("image_token_index", config.get_int("image_token_id", otherwise));
}

std::unique_ptr<Decoder> llava_decoder(const Config& config, const Scope& scope, const std::string& text, int64_t image,
                                       MakeLlavaReader make_reader) {
  std::unique_ptr<Model> writer =
      make_part(part_config(config, "text_config", text), "feature-extraction", scope / "language_model" / "model");
  std::unique_ptr<PictureReader> reader = make_reader(config, scope, body_of(*writer).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(writer),
                                      {.image_token = llava_image_token(config, image),
                                       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false),
                                       .head = "language_model.lm_head"});
}

Family llava_like(const std::string& type, const std::string& name, MakeDecoder make, FamilyInputs pixels,
                  int64_t image) {
  return picture_text_family({.type = type,
                              .writer = name + "ForConditionalGeneration",
                              .bare = name + "Model",
                              .make = make,
                              .head = {"language_model.lm_head", "lm_head"},
                              .image_processor = name,
                              .image_tokens = {.token = "<image>",
                                               .id_fields = {"image_token_index", "image_token_id"},
                                               .id = image,
                                               .processor = name},
                              .renamed_parts = llava_renamed_parts(),
                              .pixels = std::move(pixels)});
}

}  // namespace transom
