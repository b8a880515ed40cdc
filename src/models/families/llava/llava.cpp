// SPDX-License-Identifier: Apache-2.0
// LLaVA (Liu et al., 2023): states of a tower that sees, through two linear layers, in the places of a decoder's text.
#include "base/json/json.h"
#include "models/families/llava/llava_parts.h"
#include "models/shared/record_parts.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/vision_tower.h"

namespace transom {
namespace {

class LlavaReader : public PictureReader {
 public:
  LlavaReader(const Config& config, const Scope& scope, int64_t width)
      : tower_(part_config(config, "vision_config", "clip_vision_model"), VisionFeatures(config),
               scope / "vision_tower"),
        projector_(config, scope / "multi_modal_projector", tower_.width(), width) {}

  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
    return {flatten(projector_(tower_(pictures.at("pixel_values"), context), context), 0, 1)};
  }

 private:
  VisionTower tower_;
  LlavaProjector projector_;
};

std::unique_ptr<Decoder> make_llava(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kLlavaTower);
  std::unique_ptr<Model> text =
      make_part(part_config(config, "text_config", "llama"), "feature-extraction", scope / "language_model" / "model");
  auto reader = std::make_unique<LlavaReader>(config, scope, body_of(*text).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(text),
                                      {.image_token = llava_image_token(config),
                                       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false),
                                       .head = "language_model.lm_head"});
}

Family llava_family() { return llava_like("llava", "Llava", make_llava, {sized_pixels("vision_config")}); }

const RegisterFamilies kLlavaFamily{llava_family};

}  // namespace
}  // namespace transom
