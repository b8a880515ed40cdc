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

Family llava_family() {
  return llava_like("llava", "Llava", make_llava_decoder<LlavaReader>, {sized_pixels("vision_config")});
}

const RegisterFamilies kLlavaFamily{llava_family};

}  // namespace
}  // namespace transom
