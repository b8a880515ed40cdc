// SPDX-License-Identifier: Apache-2.0
// LLaVA-OneVision (Li et al., 2024): SigLIP's states in the places of Qwen 2's text. A picture that is alone in its
// text is seen whole and as a grid of parts, whose rows are resampled where they are too many; one of several as a
// square.
#include "models/families/llava/picture_grid_reader.h"

namespace transom {
namespace {

// What Transformers takes where a configuration says nothing of a part.
constexpr char kOnevisionParts[] = R"({"vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152,
  "intermediate_size": 4304, "patch_size": 14, "image_size": 384, "num_hidden_layers": 26, "num_attention_heads": 16,
  "vision_use_head": false}, "text_config": {"model_type": "qwen2"}, "vision_feature_layer": -1,
  "vision_feature_select_strategy": "full"})";
constexpr int64_t kOnevisionImage = 151646;

class LlavaOnevisionReader : public PictureGridReader {
 public:
  LlavaOnevisionReader(const Config& config, const Scope& scope, int64_t width)
      : PictureGridReader(config, scope, width,
                          {.resolutions = read_resolutions(config, "image_grid_pinpoints", onevision_resolutions()),
                           .tower = "siglip_vision_model",
                           .image_size = 224,
                           .patch_size = 16,
                           .most = most_of_aspect_ratio(config),
                           .alone_in_parts = true}) {
    config.get_int("video_token_index", config.get_int("video_token_id", 0));  // of videos, which are not read
  }
};

std::unique_ptr<Decoder> make_llava_onevision(const Config& given, const Scope& scope) {
  return llava_decoder(with_defaults(given, kOnevisionParts), scope, "qwen2", kOnevisionImage,
                       make_llava_reader<LlavaOnevisionReader>);
}

Family llava_onevision_family() {
  return llava_like("llava_onevision", "LlavaOnevision", make_llava_onevision, {}, kOnevisionImage);
}

const RegisterFamilies kLlavaOnevisionFamily{llava_onevision_family};

}  // namespace
}  // namespace transom
