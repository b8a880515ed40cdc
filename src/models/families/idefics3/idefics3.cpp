// SPDX-License-Identifier: Apache-2.0
// Idefics3 (Laurençon et al., 2024) and SmolVLM (Marafioti et al., 2025): a tower of SigLIP's layers sees the tiles of
// pictures, blocks of patches are put together into one row each, and a decoder's text has them in its places.
// N tiles, P patches of one, D hidden, s scale_factor.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/siglip/siglip_towers.h"
#include "models/loading/config_keys.h"
#include "models/nn/attention/attention.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/picture_record.h"

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

int64_t idefics3_side(const SiglipVisionConfig& c, const Config& config) {
  if (c.image_size[0] != c.image_size[1] || c.patch_size[0] != c.patch_size[1])
    fail("{}: image_size and patch_size: expected squares", config.where());
  return patch_grid(c.image_size, c.patch_size)[0];
}

// The tower: positions are those of a square grid, of which a picture of another form takes places in proportion.
class Idefics3Tower {
 public:
  Idefics3Tower(const Scope& scope, const Config& config)
      : c_(config),
        side_(idefics3_side(c_, config)),
        boundaries_(boundaries_of(side_)),
        patch_embedding_(scope / "embeddings" / "patch_embedding", c_.num_channels, c_.hidden_size, c_.patch_size,
                         c_.initializer_range),
        position_embedding_(scope / "embeddings" / "position_embedding", side_ * side_, c_.hidden_size,
                            c_.initializer_range),
        layers_(siglip_layers(scope, c_)),
        post_layernorm_(scope / "post_layernorm", c_.hidden_size, c_.layer_norm_eps) {}

  int64_t width() const { return c_.hidden_size; }

  // [N, C, H, W], i64 [N, H, W] (0: nothing there) or empty -> [N, P, D]
  Tensor operator()(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const {
    const Tensor patches = patch_embedding_(pixels, context);
    const int64_t N = pixels.dim(0);
    const Extents grid = patch_grid(size_of(pixels), c_.patch_size);
    const Tensor seen = mask.defined() ? seen_patches(mask, grid) : full({N, grid[0], grid[1]}, 1, DType::kInt64);
    const Tensor rows = places(reduce_sum(slice(seen, 2, 0, 1), {1, 2}), grid[0]),
                 columns = places(reduce_sum(slice(seen, 1, 0, 1), {1, 2}), grid[1]);
    const Tensor ids =
        (reshape(rows, {N, grid[0], 1}) * static_cast<double>(side_) + reshape(columns, {N, 1, grid[1]})) * seen;
    const Tensor x = patches + position_embedding_(reshape(ids, {N, grid[0] * grid[1]}), context);
    const Tensor hidden_patches = mask.defined() ? additive_mask(reshape(seen, {N, grid[0] * grid[1]})) : Tensor();
    return post_layernorm_(through_layers(layers_, x, hidden_patches, context).last_hidden_state, context);
  }

 private:
  // Patches of which a pixel is seen: i64 [N, h, w].
  Tensor seen_patches(const Tensor& mask, Extents grid) const {
    const Extents patch = c_.patch_size;
    if (mask.rank() != 3 || mask.dim(1) < grid[0] * patch[0] || mask.dim(2) < grid[1] * patch[1])
      fail("pixel_attention_mask: expected the rows and columns of pixel_values, found {}", to_string(mask.shape()));
    const Tensor whole = slice(slice(cast(mask, DType::kInt64), 1, 0, grid[0] * patch[0]), 2, 0, grid[1] * patch[1]);
    const Tensor sums = reduce_sum(reshape(whole, {mask.dim(0), grid[0], patch[0], grid[1], patch[1]}), {2, 4});
    return cast(greater(sums, zeros(sums.shape(), DType::kInt64)), DType::kInt64);
  }

  // Where the places of the square grid begin, but for the first.
  static std::vector<float> boundaries_of(int64_t side) {
    std::vector<float> boundaries;
    const double step = 1 / static_cast<double>(side);
    const auto count = static_cast<int64_t>(std::ceil((1 - step) / step));
    for (int64_t i = 0; i < count; ++i) boundaries.push_back(static_cast<float>(step + static_cast<double>(i) * step));
    return boundaries;
  }

  // Of `extent` patches in a line, of which `seen` [N] count, the places among those of the square grid: [N, extent].
  // With the roundings of float32 that Transformers' bucketize() sees.
  Tensor places(const Tensor& seen, int64_t extent) const {
    const int64_t N = seen.dim(0);
    const Tensor one = full({N, 1}, 1, DType::kFloat32);
    const Tensor fractions =
        minimum(iota({1, extent}, 1, DType::kFloat32) * (one / reshape(cast(seen, DType::kFloat32), {N, 1})),
                full({N, extent}, 1 - 1e-6, DType::kFloat32));
    if (boundaries_.empty()) return zeros({N, extent}, DType::kInt64);
    const auto count = static_cast<int64_t>(boundaries_.size());
    const Shape all{N, extent, count};
    const Tensor passed = greater_equal(broadcast_to(reshape(fractions, {N, extent, 1}), all),
                                        broadcast_to(Tensor::from(boundaries_, {1, 1, count}), all));
    return reduce_sum(cast(passed, DType::kInt64), {2});
  }

  SiglipVisionConfig c_;
  int64_t side_;
  std::vector<float> boundaries_;
  PatchEmbeddings patch_embedding_;
  Embedding position_embedding_;
  std::vector<SiglipLayer> layers_;
  LayerNorm post_layernorm_;
};

class Idefics3Reader : public PictureReader {
 public:
  Idefics3Reader(const Config& config, const Scope& scope, int64_t width)
      : scale_(positive(config, "scale_factor", 2, 1 << 10)),
        vision_(idefics3_vision(config)),
        tower_(scope / "vision_model", vision_),
        projection_(scope / "connector" / "modality_projection" / "proj", tower_.width() * scale_ * scale_, width,
                    {.bias = false}) {
    check_config_keys(vision_);
  }

  std::vector<std::string> input_names() const override { return {"pixel_values", "pixel_attention_mask"}; }

  // pixel_values [B, tiles, C, H, W], where those of texts with fewer tiles end with black ones, which no place has.
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
    const Tensor pixels = tiles_of(pictures);
    const int64_t N = pixels.dim(0);
    Tensor mask = pictures.find("pixel_attention_mask");
    if (mask.defined()) {
      if (mask.rank() != 4 || mask.dim(0) * mask.dim(1) != N)
        fail("pixel_attention_mask: expected [batch, tiles, height, width] as pixel_values, found {}",
             to_string(mask.shape()));
      mask = flatten(mask, 0, 1);
    }
    const Tensor rows = projection_(shuffled(tower_(pixels, mask, context)), context);  // [N, P / s^2, D]
    const int64_t each = rows.dim(1);
    if (N == 1) return {flatten(rows, 0, 1)};
    // Those that are seen first, in their order.
    const Tensor seen = seen_tiles(pixels), number = cumulative_sum(seen, 0);
    const Tensor order = reduce_sum(
        cast(less_equal(broadcast_to(reshape(number, {1, N}), {N, N}), iota({N, N}, 0)), DType::kInt64), {1});
    const Tensor last = full({N}, static_cast<double>(N - 1), DType::kInt64);
    return {flatten(gather(rows, minimum(order, last), 0), 0, 1), reduce_sum(seen, {0}) * static_cast<double>(each)};
  }

  std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext& context) const override {
    const Tensor pixels = tiles_of(pictures), given = pictures.find("pixel_attention_mask");
    const std::vector<int64_t> seen = seen_tiles(pixels).to_vector<int64_t>();
    const Tensor mask = given.defined() && given.rank() == 4 ? flatten(given, 0, 1) : Tensor();
    std::vector<PictureApart> tiles;
    for (int64_t i = 0; i < pixels.dim(0); ++i) {
      if (seen[static_cast<size_t>(i)] == 0) continue;
      NamedTensors tile{{"pixel_values", unsqueeze(slice(pixels, 0, i, i + 1), 0)}};
      if (mask.defined()) tile.set("pixel_attention_mask", unsqueeze(slice(mask, 0, i, i + 1), 0));
      const int64_t places = tiles.empty() ? (*this)(tile, context).rows.dim(0) : tiles[0].places;
      tiles.push_back({std::move(tile), places});
    }
    return tiles;
  }

 private:
  static Tensor tiles_of(const NamedTensors& pictures) {
    const Tensor& pixels = pictures.at("pixel_values");
    if (pixels.rank() != 5 || pixels.dim(0) * pixels.dim(1) < 1)
      fail("pixel_values: expected [batch, tiles, channels, height, width], found {}", to_string(pixels.shape()));
    return flatten(pixels, 0, 1);
  }
  // i64 [N]: 0 where every number is 0.
  static Tensor seen_tiles(const Tensor& pixels) {
    const Tensor some = cast(not_equal(pixels, zeros(pixels.shape(), pixels.dtype())), DType::kInt64);
    return reduce_max(some, {1, 2, 3});
  }
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
  Idefics3Tower tower_;
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
