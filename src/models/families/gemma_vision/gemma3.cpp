// SPDX-License-Identifier: Apache-2.0
// Gemma 3 with pictures (Gemma Team, 2025): SigLIP's last states, of which blocks are averaged to a fixed number of
// rows, normed and multiplied with one matrix, in the places of the text of Gemma 3. The places of a picture see each
// other in both directions. N pictures, P patches of one, D hidden.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/llava/llava_parts.h"
#include "models/families/siglip/siglip_towers.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/picture_record.h"
#include "models/vision_language/vision_tower.h"

namespace transom {
namespace {

constexpr int64_t kGemma3Image = 262144;

class Gemma3Reader : public PictureReader {
 public:
  Gemma3Reader(const Config& config, const Config& vision, const Scope& scope, int64_t width)
      : tower_(vision, scope / "vision_tower"),
        norm_(scope / "multi_modal_projector" / "mm_soft_emb_norm", tower_.width(),
              vision.get_float("layer_norm_eps", 1e-6), true),
        weight_((scope / "multi_modal_projector")
                    .parameter("mm_input_projection_weight", {tower_.width(), width}, Initial::zeros())) {
    const SiglipVisionConfig seen(vision);
    const Extents grid = patch_grid(seen.image_size, seen.patch_size);
    const int64_t tokens = positive(config, "mm_tokens_per_image", 256);
    side_ = static_cast<int64_t>(std::sqrt(static_cast<double>(std::min<int64_t>(tokens, 1 << 20))));
    patches_ = grid[0];
    if (side_ * side_ != tokens || grid[0] != grid[1] || grid[0] % side_ != 0)
      fail("{}: mm_tokens_per_image: expected the square of a divisor of {}, the patches of an edge, found {}",
           config.where(), grid[0], tokens);
  }

  // pixel_values [N, C, H, W], or [1, N, C, H, W] of a picture with its crops.
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
    const Tensor& given = pictures.at("pixel_values");
    const Tensor states = tower_(given.rank() == 5 ? flatten(given, 0, 1) : given, context);
    const int64_t N = states.dim(0), D = states.dim(2), block = patches_ / side_;
    const Tensor blocks = reshape(states, {N, side_, block, side_, block, D});
    const Tensor rows = norm_(reshape(mean(blocks, {2, 4}), {N * side_ * side_, D}), context);
    return {dot_general(rows, weight_->value, {{}, {}, {1}, {0}}, context.computing)};
  }

 private:
  VisionTower tower_;
  RmsNorm norm_;
  std::shared_ptr<Parameter> weight_;
  int64_t side_ = 0, patches_ = 0;  // rows of a picture and patches, on an edge
};

std::unique_ptr<Decoder> make_gemma3_pictures(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"text_config": {"model_type": "gemma3_text"},
      "vision_config": {"model_type": "siglip_vision_model"}})");
  Config text = part_config(config, "text_config", "gemma3_text");
  const Config vision = part_config(config, "vision_config", "siglip_vision_model");
  set_field(text, "final_logit_softcapping", nullptr);  // Transformers leaves the cap out of this class
  set_field(text, "tie_word_embeddings", config.get_bool("tie_word_embeddings", true));
  for (const char* mark : {"boi_token_index", "eoi_token_index"}) config.get_int(mark, 0);  // the processor writes them
  std::unique_ptr<Model> body = make_part(text, "feature-extraction", scope / "language_model" / "model");
  auto reader = std::make_unique<Gemma3Reader>(config, vision, scope, body_of(*body).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(body),
                                      {.image_token = llava_image_token(config, kGemma3Image),
                                       .head = "language_model.lm_head",
                                       .together = Together::kPictures});
}

Family gemma3_family() {
  return picture_text_family({.type = "gemma3",
                              .writer = "Gemma3ForConditionalGeneration",
                              .bare = "Gemma3Model",
                              .make = make_gemma3_pictures,
                              .head = {"language_model.lm_head", "lm_head"},
                              .tokenizer = "Gemma",
                              .image_processor = "Gemma3",
                              .image_tokens = {.token = "<start_of_image>",
                                               .id_fields = {"image_token_index", "image_token_id"},
                                               .id = kGemma3Image,
                                               .processor = "Gemma3"},
                              .renamed_parts = llava_renamed_parts(),
                              .pixels = {sized_pixels("vision_config")}});
}

const RegisterFamilies kGemma3Family{gemma3_family};

}  // namespace
}  // namespace transom
