// SPDX-License-Identifier: Apache-2.0
// PaliGemma 1 and 2 (Beyer et al., 2024; Steiner et al., 2024): SigLIP's last states, through one linear layer, in the
// places of Gemma's text. The tokens of a prompt see each other in both directions, what is written sees what stands
// before it. Transformers counts positions from 1: they are rotary, so that nothing hangs on where they begin.
#include "base/error.h"
#include "base/json/json.h"
#include "models/families/llava/llava_parts.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/picture_record.h"
#include "models/vision_language/vision_tower.h"

namespace transom {
namespace {

constexpr int64_t kPaliGemmaImage = 256000;
// What Transformers takes where a configuration says nothing of a part.
constexpr char kPaliGemmaParts[] = R"({"text_config": {"model_type": "gemma", "hidden_size": 2048,
  "num_hidden_layers": 18, "intermediate_size": 16384, "num_attention_heads": 8, "num_key_value_heads": 1,
  "vocab_size": 257152}, "vision_config": {"model_type": "siglip_vision_model", "intermediate_size": 4096,
  "hidden_size": 1152, "patch_size": 14, "image_size": 224, "num_hidden_layers": 27, "num_attention_heads": 16,
  "vision_use_head": false}})";

class PaliGemmaReader : public PictureReader {
 public:
  PaliGemmaReader(const Config& config, const Config& vision, const Scope& scope, int64_t width)
      : tower_(vision, scope / "vision_tower"),
        linear_(scope / "multi_modal_projector" / "linear", tower_.width(), width) {
    if (const int64_t made = config.get_int("projection_dim", 2048); made != width)
      fail("{}: projection_dim: the decoder reads rows of {} numbers (hidden_size), found {}", config.where(), width,
           made);
  }

  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
    return {flatten(linear_(tower_(pictures.at("pixel_values"), context), context), 0, 1)};
  }

 private:
  VisionTower tower_;
  Linear linear_;
};

std::unique_ptr<Decoder> make_paligemma(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kPaliGemmaParts);
  Config text = part_config(config, "text_config", "gemma");
  const Config vision = part_config(config, "vision_config", "siglip_vision_model");
  // What it says of itself is what this model does with every decoder, for prompts alone.
  set_field(text, "use_bidirectional_attention", false);
  set_field(text, "tie_word_embeddings", config.get_bool("tie_word_embeddings", true));
  for (const Config& part : {text, vision}) part.get_int("num_image_tokens", 0);  // the tower's, which has them
  vision.get_string("projector_hidden_act", "");  // of older files: nothing is behind it
  vision.get_int("vocab_size", 0);
  for (const char* of_text : {"hidden_size", "vocab_size"}) config.get_int(of_text, 0);  // its own part says them
  std::unique_ptr<Model> body = make_part(text, "feature-extraction", scope / "language_model" / "model");
  auto reader = std::make_unique<PaliGemmaReader>(config, vision, scope, body_of(*body).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(body),
                                      {.image_token = llava_image_token(config, kPaliGemmaImage),
                                       .head = "language_model.lm_head",
                                       .together = Together::kPrompt});
}

Family paligemma_family() {
  return picture_text_family({.type = "paligemma",
                              .writer = "PaliGemmaForConditionalGeneration",
                              .bare = "PaliGemmaModel",
                              .make = make_paligemma,
                              .head = {"language_model.lm_head", "lm_head"},
                              .tokenizer = "Gemma",
                              .image_processor = "Siglip",
                              .image_tokens = {.token = "<image>",
                                               .id_fields = {"image_token_index", "image_token_id"},
                                               .id = kPaliGemmaImage,
                                               .processor = "PaliGemma"},
                              .renamed_parts = llava_renamed_parts(),
                              .pixels = {sized_pixels("vision_config")}});
}

const RegisterFamilies kPaliGemmaFamily{paligemma_family};

}  // namespace
}  // namespace transom
