// SPDX-License-Identifier: Apache-2.0
// ViT-MAE (He et al., Masked Autoencoders Are Scalable Vision Learners, 2021): a ViT that sees a part of the patches,
// and a decoder that makes up the others. Which patches are hidden is said by noise: those with the least are seen.
// B batch, N patches, K of which are seen, D hidden.
#include <cmath>

#include "models/families/vit/vit_body.h"
#include "models/nn/losses/loss_divisors.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kFewestTimesFour = 4;  // numbers of a sinusoid: two of the row, two of the column

struct ViTMAEConfig {
  explicit ViTMAEConfig(const Config& config)
      : vit(config),
        decoder(config),
        grid(patch_grid(vit.image_size, vit.patch_size)),
        mask_ratio(config.get_float("mask_ratio", 0.75)),
        norm_pix_loss(config.get_bool("norm_pix_loss", false)) {
    decoder.hidden_size = positive(config, "decoder_hidden_size", 512);
    decoder.num_hidden_layers = config.get_int("decoder_num_hidden_layers", 8);
    decoder.num_attention_heads = positive(config, "decoder_num_attention_heads", 16);
    decoder.intermediate_size = config.get_int("decoder_intermediate_size", 2048);
    if (decoder.hidden_size % decoder.num_attention_heads != 0)
      fail("{}: decoder_hidden_size {} is not divisible by decoder_num_attention_heads {}", config.where(),
           decoder.hidden_size, decoder.num_attention_heads);
    for (const int64_t width : {vit.hidden_size, decoder.hidden_size})
      if (width % kFewestTimesFour != 0)
        fail("{}: hidden_size and decoder_hidden_size: expected multiples of 4, found {}", config.where(), width);
    if (vit.image_size[0] != vit.image_size[1] || vit.patch_size[0] != vit.patch_size[1] ||
        vit.image_size[0] % vit.patch_size[0] != 0)
      fail("{}: expected square pictures, and square patches that divide them, found {}x{} and {}x{}", config.where(),
           vit.image_size[0], vit.image_size[1], vit.patch_size[0], vit.patch_size[1]);
    if (!(mask_ratio >= 0 && mask_ratio <= 1) || seen() < 1)
      fail("{}: mask_ratio: expected a part of the {} patches that leaves some, found {}", config.where(), patches(),
           mask_ratio);
  }
  int64_t patches() const { return grid[0] * grid[1]; }
  int64_t seen() const { return static_cast<int64_t>(static_cast<double>(patches()) * (1 - mask_ratio)); }
  int64_t numbers() const { return vit.num_channels * vit.patch_size[0] * vit.patch_size[1]; }

  ViTConfig vit, decoder;
  Extents grid;
  double mask_ratio;
  bool norm_pix_loss;
};

// Sinusoids of the columns and the rows of patches, behind zeros for the class, [1, N + 1, D].
std::vector<float> sinusoids_of_grid(Extents grid, int64_t width) {
  const int64_t quarter = width / 4;
  std::vector<float> values(static_cast<size_t>((grid[0] * grid[1] + 1) * width), 0.0f);
  for (int64_t y = 0; y < grid[0]; ++y)
    for (int64_t x = 0; x < grid[1]; ++x)
      for (int64_t i = 0; i < quarter; ++i) {
        const double rate = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(quarter));
        float* place = values.data() + (1 + y * grid[1] + x) * width + i;
        const double across = static_cast<double>(x) * rate, down = static_cast<double>(y) * rate;
        place[0] = static_cast<float>(std::sin(across));
        place[quarter] = static_cast<float>(std::cos(across));
        place[2 * quarter] = static_cast<float>(std::sin(down));
        place[3 * quarter] = static_cast<float>(std::cos(down));
      }
  return values;
}

// Fixed in the paper; Transformers trains them once they are loaded, and so does this.
std::shared_ptr<Parameter> places_of_patches(const Scope& scope, const char* name, const ViTMAEConfig& c,
                                             int64_t width) {
  return scope.parameter(name, {1, c.patches() + 1, width}, Initial::given(sinusoids_of_grid(c.grid, width)));
}

// Which patches of each row are seen.
struct HiddenPatches {
  Tensor order;    // i64 [B, N]: the patches by rising noise
  Tensor restore;  // i64 [B, N]: where each patch stands in it
  Tensor seen, hidden;
  Tensor mask;  // f32 [B, N]: 1 where a patch is hidden
};

HiddenPatches hidden_patches(const NamedTensors& inputs, int64_t B, const ViTMAEConfig& c, int64_t N,
                             ForwardContext& context) {
  Tensor noise = inputs.find("noise");
  if (!noise.defined()) noise = random_uniform(context.training ? next_random_key(context) : random_key(0, 0), {B, N});
  if (noise.shape() != Shape{B, N}) fail("noise: expected [{}, {}], found {}", B, N, to_string(noise.shape()));
  const auto K = static_cast<int64_t>(static_cast<double>(N) * (1 - c.mask_ratio));
  HiddenPatches patches;
  patches.order = top_k(-cast(noise, DType::kFloat32), N).second;
  patches.restore = top_k(-cast(patches.order, DType::kFloat32), N).second;
  patches.seen = slice(patches.order, 1, 0, K);
  patches.hidden = slice(patches.order, 1, K, N);
  patches.mask =
      cast(greater_equal(patches.restore, full({B, N}, static_cast<double>(K), DType::kInt64)), DType::kFloat32);
  return patches;
}

// Rows x [B, N, D] of some patches [B, K] -> [B, K, D].
Tensor patches_at(const Tensor& x, const Tensor& places) {
  return take_along_axis(x, broadcast_to(unsqueeze(places, 2), {places.dim(0), places.dim(1), x.dim(2)}), 1);
}

class ViTMAEBody {
 public:
  ViTMAEBody(const Scope& scope, const ViTMAEConfig& c)
      : c_(c),
        cls_token_(scope.parameter("embeddings.cls_token", {1, 1, c.vit.hidden_size},
                                   Initial::normal(c.vit.initializer_range))),
        places_(places_of_patches(scope / "embeddings", "position_embeddings", c, c.vit.hidden_size)),
        patch_embeddings_(scope / "embeddings" / "patch_embeddings" / "projection", c.vit.num_channels,
                          c.vit.hidden_size, c.vit.patch_size, c.vit.initializer_range),
        layernorm_(scope / "layernorm", c.vit.hidden_size, c.vit.layer_norm_eps) {
    for (int64_t i = 0; i < c.vit.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c.vit);
  }

  // `patches` is given what is hidden.
  EncoderOutput operator()(const NamedTensors& inputs, HiddenPatches& patches, ForwardContext& context) const {
    const Tensor& image = image_input(inputs, c_.vit.num_channels);
    Tensor x = patch_embeddings_(image, context);
    const Tensor places = cast(positions(size_of(image), context), x.dtype());
    x = x + slice(places, 1, 1, places.dim(1));
    patches = hidden_patches(inputs, x.dim(0), c_, x.dim(1), context);
    const Tensor first = cast(cls_token_->value, x.dtype()) + slice(places, 1, 0, 1);
    x = concatenate({broadcast_to(first, {x.dim(0), 1, x.dim(2)}), patches_at(x, patches.seen)}, 1);
    EncoderOutput output = through_layers(layers_, x, Tensor(), context);
    output.last_hidden_state = layernorm_(output.last_hidden_state, context);
    return output;
  }

 private:
  Tensor positions(Extents size, const ForwardContext& context) const {
    if (size == c_.vit.image_size) return places_->value;
    if (!context.interpolate_pos_encoding)
      fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
           c_.vit.image_size[0], c_.vit.image_size[1], size[0], size[1]);
    return interpolated_positions(places_->value, 1, patch_grid(size, c_.vit.patch_size), context.computing);
  }

  ViTMAEConfig c_;
  std::shared_ptr<Parameter> cls_token_, places_;
  PatchEmbeddings patch_embeddings_;
  std::vector<ViTLayer> layers_;
  LayerNorm layernorm_;
};

NamedTensors with_hidden_patches(NamedTensors outputs, const HiddenPatches& patches, const EncoderOutput& encoded) {
  outputs.set("mask", patches.mask);
  outputs.set("ids_restore", patches.restore);
  add_hidden_states(outputs, encoded.hidden_states);
  return outputs;
}

class ViTMAEModel : public Model {
 public:
  ViTMAEModel(const Config& config, const Scope& scope) : body_(scope, ViTMAEConfig(config)) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "noise"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    HiddenPatches patches;
    const EncoderOutput encoded = body_(inputs, patches, context);
    return with_hidden_patches({{"last_hidden_state", encoded.last_hidden_state}}, patches, encoded);
  }

 private:
  ViTMAEBody body_;
};

// The decoder sees all patches in their places, a token in that of each hidden one.
class ViTMAEForPreTraining : public Model {
 public:
  ViTMAEForPreTraining(const Config& config, const Scope& scope)
      : c_(config),
        vit_(scope / "vit", c_),
        mask_token_(scope.parameter("decoder.mask_token", {1, 1, c_.decoder.hidden_size},
                                    Initial::normal(c_.vit.initializer_range))),
        places_(places_of_patches(scope / "decoder", "decoder_pos_embed", c_, c_.decoder.hidden_size)),
        embed_(scope / "decoder" / "decoder_embed", c_.vit.hidden_size, c_.decoder.hidden_size, c_.vit.new_weights()),
        norm_(scope / "decoder" / "decoder_norm", c_.decoder.hidden_size, c_.vit.layer_norm_eps),
        pred_(scope / "decoder" / "decoder_pred", c_.decoder.hidden_size, c_.numbers(), c_.vit.new_weights()) {
    for (int64_t i = 0; i < c_.decoder.num_hidden_layers; ++i)
      layers_.emplace_back(scope / "decoder" / "decoder_layers" / i, c_.decoder);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "noise"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& image = image_input(inputs, c_.vit.num_channels);
    if (size_of(image) != c_.vit.image_size)
      fail("pixel_values: expected images of {}x{}, which the decoder has places for, found {}x{}",
           c_.vit.image_size[0], c_.vit.image_size[1], image.dim(2), image.dim(3));
    HiddenPatches patches;
    const EncoderOutput encoded = vit_(inputs, patches, context);
    const Tensor seen = embed_(encoded.last_hidden_state, context);
    const int64_t B = seen.dim(0), K = seen.dim(1) - 1, N = c_.patches(), D = seen.dim(2);
    const Tensor tokens = broadcast_to(cast(mask_token_->value, seen.dtype()), {B, N - K, D});
    const Tensor all = patches_at(concatenate({slice(seen, 1, 1, K + 1), tokens}, 1), patches.restore);
    const Tensor x = concatenate({slice(seen, 1, 0, 1), all}, 1) + cast(places_->value, seen.dtype());
    const Tensor decoded = through_layers(layers_, x, Tensor(), context).last_hidden_state;
    const Tensor logits = slice(pred_(norm_(decoded, context), context), 1, 1, N + 1);
    NamedTensors outputs{{"logits", logits}};
    if (K < N) {
      const Tensor distance = patches_at(cast(logits, DType::kFloat32) - wanted_pixels(image), patches.hidden);
      outputs = with_loss(mean_of_all(distance * distance, context), std::move(outputs));
    }
    return with_hidden_patches(std::move(outputs), patches, encoded);
  }

 private:
  // The numbers of each patch, with norm_pix_loss about their mean, in their deviation. f32 [B, N, numbers]
  Tensor wanted_pixels(const Tensor& image) const {
    const int64_t B = image.dim(0), C = c_.vit.num_channels, side = c_.vit.patch_size[0], n = c_.numbers();
    const Tensor parts = reshape(cast(image, DType::kFloat32).detach(), {B, C, c_.grid[0], side, c_.grid[1], side});
    Tensor pixels = reshape(permute(parts, {0, 2, 4, 3, 5, 1}), {B, c_.patches(), n});
    if (!c_.norm_pix_loss) return pixels;
    const Tensor centred = pixels - mean(pixels, {2}, true);
    const Tensor variance = mean(centred * centred, {2}, true) * (static_cast<double>(n) / static_cast<double>(n - 1));
    return centred / sqrt(variance + 1e-6);
  }

  ViTMAEConfig c_;
  ViTMAEBody vit_;
  std::shared_ptr<Parameter> mask_token_, places_;
  Linear embed_;
  std::vector<ViTLayer> layers_;
  LayerNorm norm_;
  Linear pred_;
};

FamilyHead pictures_made_up_head() {
  FamilyHead head = masked_image_head({"decoder"});
  head.pipelines = std::vector<std::string>{"pretraining"};
  head.labels = HeadLabels::kNone;  // it learns from the picture alone
  head.outputs = std::vector<std::string>{"logits", "mask", "ids_restore"};
  return head;
}

}  // namespace

static Family vit_mae_family() {
  return {.model_type = "vit_mae",
          .base_prefix = "vit",
          .architectures = {{"ViTMAEModel", body_head({}, {"last_hidden_state", "mask", "ids_restore"}),
                             make_model<ViTMAEModel>},
                            {"ViTMAEForPreTraining", pictures_made_up_head(), make_model<ViTMAEForPreTraining>}},
          .inputs = {sized_pixels()},
          .processors =
              {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      // As Transformers 5.24 writes them.
                      .renamed_parts = {{"decoder.decoder_layers.", "decoder.decoder_encoder.layer."}}},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kViTMAEFamily{vit_mae_family};

}  // namespace transom
