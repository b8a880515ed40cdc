// SPDX-License-Identifier: Apache-2.0
// Idefics3 (Laurençon et al., 2024) and SmolVLM (Marafioti et al., 2025): a tower of SigLIP's layers sees the tiles of
// pictures, blocks of patches are put together into one row each, and a decoder's text has them in its places.
// N tiles, P patches of one, D hidden, s scale_factor.
#include <cmath>

#include "base/error.h"
#include "models/families/idefics3/idefics_tiles.h"
#include "models/loading/config_keys.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_record.h"
#include "transom/ops.h"

namespace transom {
namespace {

// What Transformers takes where a configuration says nothing of a part.
constexpr char kIdefics3Parts[] = R"({"text_config": {"model_type": "llama", "rms_norm_eps": 1e-05},
  "vision_config": {"hidden_size": 1152, "num_attention_heads": 16, "patch_size": 32}})";
constexpr int64_t kIdefics3Image = 128257;

Config idefics3_vision(const Config& config) {
  return with_defaults(config.get_object("vision_config"),
                       R"({"hidden_size": 1152, "num_attention_heads": 16, "patch_size": 32})");
}

class Idefics3Reader : public TileReader {
 public:
  Idefics3Reader(const Config& config, const Scope& scope, int64_t width)
      : scale_(positive(config, "scale_factor", 2, 1 << 10)),
        vision_(idefics3_vision(config)),
        tower_(scope / "vision_model", vision_, IdeficsTower::Seen::kSomePixel),
        projection_(scope / "connector" / "modality_projection" / "proj", tower_.width() * scale_ * scale_, width,
                    {.bias = false}) {
    check_config_keys(vision_);
  }

 protected:
  Tensor rows_of(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const override {
    return projection_(shuffled(tower_(pixels, mask, context).states), context);  // [N, P / s^2, D]
  }

 private:
  // Of a square of patches each s x s block as one row: [N, P, D] -> [N, P / s^2, D s^2].
  Tensor shuffled(const Tensor& x) const {
    const int64_t N = x.dim(0), D = x.dim(2), s = scale_;
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(x.dim(1))));
    if (side * side != x.dim(1) || side % s != 0)
      fail("{} patches of a tile are no square of blocks of scale_factor {}", x.dim(1), s);
    const Tensor blocks = permute(reshape(x, {N, side / s, s, side / s, s, D}), {0, 1, 3, 2, 4, 5});
    return reshape(blocks, {N, side / s * (side / s), s * s * D});
  }

  int64_t scale_;
  Config vision_;
  IdeficsTower tower_;
  Linear projection_;
};

std::unique_ptr<Decoder> make_idefics3(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, kIdefics3Parts);
  std::unique_ptr<Model> text =
      make_part(part_config(config, "text_config", "llama"), "feature-extraction", scope / "text_model");
  auto reader = std::make_unique<Idefics3Reader>(config, scope, body_of(*text).traits().width);
  return make_vision_language_decoder(std::move(reader), std::move(text),
                                      {.image_token = config.get_int("image_token_id", kIdefics3Image),
                                       .tie_word_embeddings = config.get_bool("tie_word_embeddings", false)});
}

// Both families compute the same.
Family idefics3_like(const std::string& type, const std::string& name) {
  return picture_text_family(
      {.type = type,
       .writer = name + "ForConditionalGeneration",
       .bare = name + "Model",
       .make = make_idefics3,
       .prefix = "model",
       .image_processor = name,
       .image_tokens = {
           .token = "<image>", .id_fields = {"image_token_id"}, .id = kIdefics3Image, .processor = "Idefics3"}});
}
Family idefics3_family() { return idefics3_like("idefics3", "Idefics3"); }
Family smolvlm_family() { return idefics3_like("smolvlm", "SmolVLM"); }

const RegisterFamilies kIdefics3Families{idefics3_family, smolvlm_family};

}  // namespace
}  // namespace transom
