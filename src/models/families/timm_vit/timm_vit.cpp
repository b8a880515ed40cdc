// SPDX-License-Identifier: Apache-2.0
// timm's vision transformers (Dosovitskiy et al., 2020; Touvron et al., 2020 and 2022): the layers of ViT with one
// matrix for queries, keys and values. B images, N tokens, D hidden.
#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "models/families/timm_wrapper/timm_network.h"
#include "models/nn/attention/attention.h"
#include "models/nn/layers.h"
#include "models/nn/vision/convolution.h"

namespace transom {
namespace {

constexpr int64_t kMostTimmViTWidth = 1 << 16, kMostTimmViTDepth = 1024, kMostTimmViTSide = 1 << 13;
constexpr double kTimmViTEpsilon = 1e-6, kTimmViTDeviation = 0.02;

struct TimmViTShape {
  std::string_view name;  // "deit3_base"
  int64_t width, depth, heads;
};
constexpr TimmViTShape kTimmViTs[] = {
    {"vit_tiny", 192, 12, 3},     {"vit_small", 384, 12, 6},   {"vit_base", 768, 12, 12},
    {"vit_large", 1024, 24, 16},  {"vit_huge", 1280, 32, 16},  {"deit_tiny", 192, 12, 3},
    {"deit_small", 384, 12, 6},   {"deit_base", 768, 12, 12},  {"deit3_small", 384, 12, 6},
    {"deit3_medium", 512, 12, 8}, {"deit3_base", 768, 12, 12}, {"deit3_large", 1024, 24, 16},
    {"deit3_huge", 1280, 32, 16}};

// "vit_base_patch16_224": its shape, the side of a patch and that of the image.
struct TimmViTName {
  const TimmViTShape* shape;
  int64_t patch, image;
};

std::optional<int64_t> timm_vit_number(std::string_view text) {
  if (text.empty() || text.size() > 4 ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
    return std::nullopt;
  return std::stoll(std::string(text));
}

std::optional<TimmViTName> timm_vit_name(std::string_view name) {
  constexpr std::string_view kPatch = "_patch";
  const size_t patch = name.find(kPatch), image = name.rfind('_');
  if (patch == name.npos || image <= patch) return std::nullopt;
  const std::string_view begin = name.substr(0, patch);
  const auto shape = std::find_if(std::begin(kTimmViTs), std::end(kTimmViTs),
                                  [&](const TimmViTShape& each) { return each.name == begin; });
  const size_t number = patch + kPatch.size();
  const auto side = timm_vit_number(name.substr(number, image - number)),
             whole = timm_vit_number(name.substr(image + 1));
  if (shape == std::end(kTimmViTs) || !side || (whole != 224 && whole != 384)) return std::nullopt;
  return TimmViTName{shape, *side, *whole};
}

struct TimmViTConfig {
  explicit TimmViTConfig(const TimmArguments& timm) {
    const TimmViTName named = *timm_vit_name(timm.name);
    const Config& given = timm.given;
    const bool third = named.shape->name.starts_with("deit3");
    width = positive(given, "embed_dim", named.shape->width, kMostTimmViTWidth);
    depth = positive(given, "depth", named.shape->depth, kMostTimmViTDepth);
    heads = positive(given, "num_heads", named.shape->heads, kMostTimmViTWidth);
    const auto pair = [&](const char* field, int64_t otherwise) {
      const std::array<int64_t, 2> both = given.get_pair(field, otherwise);
      for (const int64_t side : both)
        if (side < 1 || side > kMostTimmViTSide)
          fail("{}: {}: expected 1 to {}, found {}", given.where(), field, kMostTimmViTSide, side);
      return both;
    };
    image = pair("img_size", named.image);
    patch = pair("patch_size", named.patch);
    grid = {image[0] / patch[0], image[1] / patch[1]};
    if (grid[0] < 1 || grid[1] < 1)
      fail("{}: patch_size: expected one that fits into {} x {} pixels, found {} x {}", given.where(), image[0],
           image[1], patch[0], patch[1]);
    const double inner = static_cast<double>(width) * given.get_float("mlp_ratio", 4);
    if (width % heads != 0)
      fail("{}: num_heads: expected a divisor of embed_dim {}, found {}", given.where(), width, heads);
    if (!(inner >= 1) || inner > 16.0 * kMostTimmViTWidth)
      fail("{}: mlp_ratio: expected one that makes 1 to {} numbers, found {}", given.where(), 16 * kMostTimmViTWidth,
           inner);
    intermediate = static_cast<int64_t>(inner);
    qkv_bias = given.get_bool("qkv_bias", true);
    no_embed_class = given.get_bool("no_embed_class", third);
    class_token = given.get_bool("class_token", true);
    if (given.has("init_values") || third) layer_scale = given.get_float("init_values", 1e-6);
    pool = timm.named_pooling("token");
    if (pool != "token" && pool != "avg")
      fail(ErrorKind::kUnsupported, "{}: global_pool = {} is not carried out; token and avg are", given.where(),
           quoted(pool));
    if (pool == "token" && !class_token)
      fail("{}: global_pool: token needs class_token, which is false", given.where());
    norms_pooled = given.get_bool("fc_norm", pool == "avg");
    pos_drop_rate = given.get_float("pos_drop_rate", 0);
    proj_drop_rate = given.get_float("proj_drop_rate", 0);
    attn_drop_rate = given.get_float("attn_drop_rate", 0);
    timm.expect_all_read();
  }
  int64_t width, depth, heads, intermediate;
  std::array<int64_t, 2> image, patch, grid;
  bool qkv_bias, no_embed_class, class_token, norms_pooled;
  std::optional<double> layer_scale;
  std::string pool;
  double pos_drop_rate, proj_drop_rate, attn_drop_rate;
};

class TimmViTBlock {
 public:
  TimmViTBlock(const Scope& scope, const TimmViTConfig& c, double drop_path)
      : heads_(c.heads),
        norm1_(scope / "norm1", c.width, kTimmViTEpsilon),
        norm2_(scope / "norm2", c.width, kTimmViTEpsilon),
        qkv_(scope / "attn" / "qkv", c.width, 3 * c.width, {.bias = c.qkv_bias, .deviation = kTimmViTDeviation}),
        proj_(scope / "attn" / "proj", c.width, c.width, {.deviation = kTimmViTDeviation}),
        fc1_(scope / "mlp" / "fc1", c.width, c.intermediate, {.deviation = kTimmViTDeviation}),
        fc2_(scope / "mlp" / "fc2", c.intermediate, c.width, {.deviation = kTimmViTDeviation}),
        attention_dropout_(c.attn_drop_rate),
        dropout_(c.proj_drop_rate),
        drop_path_(drop_path) {
    if (!c.layer_scale) return;
    for (const char* name : {"ls1", "ls2"})
      scales_.push_back((scope / name).parameter("gamma", {c.width}, Initial::constant(*c.layer_scale)));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const int64_t D = x.dim(2);
    const Tensor all = qkv_(norm1_(x, context), context);
    const auto part = [&](int64_t i) { return slice(all, 2, i * D, (i + 1) * D); };
    const Tensor mixed = multi_head_attention(part(0), part(1), part(2), heads_, {}, attention_dropout_, context);
    const Tensor h = x + drop_path_(scaled(dropout_(proj_(mixed, context), context), 0), context);
    const Tensor inner = dropout_(gelu(fc1_(norm2_(h, context), context)), context);
    return h + drop_path_(scaled(dropout_(fc2_(inner, context), context), 1), context);
  }

 private:
  Tensor scaled(const Tensor& x, size_t i) const {
    return scales_.empty() ? x : x * cast(scales_[i]->value, x.dtype());
  }
  int64_t heads_;
  LayerNorm norm1_, norm2_;
  Linear qkv_, proj_, fc1_, fc2_;
  Dropout attention_dropout_, dropout_;
  DropPath drop_path_;
  std::vector<std::shared_ptr<Parameter>> scales_;
};

class TimmViTNetwork : public TimmNetwork {
 public:
  TimmViTNetwork(const Config& config, const Scope& scope) : TimmViTNetwork(TimmArguments(config), scope) {}
  TimmViTNetwork(const TimmArguments& timm, const Scope& scope)
      : timm_(timm),
        c_(timm),
        projection_(scope / "patch_embed" / "proj", timm.in_chans, c_.width, Axes{c_.patch[0], c_.patch[1]},
                    Convolution::Options{.strides = {c_.patch[0], c_.patch[1]}, .deviation = kTimmViTDeviation}),
        position_dropout_(c_.pos_drop_rate) {
    const int64_t places = c_.grid[0] * c_.grid[1];
    if (c_.class_token) cls_token_ = scope.parameter("cls_token", {1, 1, c_.width}, Initial::normal(1e-6));
    positions_ = scope.parameter("pos_embed", {1, places + (c_.class_token && !c_.no_embed_class ? 1 : 0), c_.width},
                                 Initial::normal(kTimmViTDeviation));
    for (int64_t i = 0; i < c_.depth; ++i)
      blocks_.emplace_back(
          scope / "blocks" / i, c_,
          timm.drop_path_rate * static_cast<double>(i) / static_cast<double>(std::max<int64_t>(c_.depth - 1, 1)));
    norm_.emplace(scope / (c_.norms_pooled ? "fc_norm" : "norm"), c_.width, kTimmViTEpsilon);
  }

  Facts facts() const override { return {timm_.in_chans, timm_.num_classes, c_.width, "head"}; }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override {
    if (image.dim(2) != c_.image[0] || image.dim(3) != c_.image[1])
      fail("pixel_values: expected {} x {} pixels (img_size), found {}", c_.image[0], c_.image[1],
           to_string(image.shape()));
    Tensor x = embedded(image, context);
    std::vector<Tensor> states;
    for (const TimmViTBlock& block : blocks_) {
      x = block(x, context);
      if (context.output_hidden_states) states.push_back(map_of(x));
    }
    if (!c_.norms_pooled) x = (*norm_)(x, context);
    Tensor pooled = c_.pool == "token" ? squeeze(slice(x, 1, 0, 1), 1) : mean(patches_of(x), {1});
    if (c_.norms_pooled) pooled = (*norm_)(pooled, context);
    return {x, Dropout(timm_.drop_rate)(pooled, context), states};
  }

 private:
  Tensor embedded(const Tensor& image, ForwardContext& context) const {
    const int64_t B = image.dim(0), D = c_.width;
    Tensor x = permute(reshape(projection_(image, context), {B, D, c_.grid[0] * c_.grid[1]}), {0, 2, 1});
    const Tensor positions = cast(positions_->value, x.dtype());
    if (c_.no_embed_class) x = x + positions;
    if (c_.class_token) x = concatenate({broadcast_to(cast(cls_token_->value, x.dtype()), {B, 1, D}), x}, 1);
    return position_dropout_(c_.no_embed_class ? x : x + positions, context);
  }
  Tensor patches_of(const Tensor& x) const { return c_.class_token ? slice(x, 1, 1, x.dim(1)) : x; }
  Tensor map_of(const Tensor& x) const {
    return reshape(permute(patches_of(x), {0, 2, 1}), {x.dim(0), c_.width, c_.grid[0], c_.grid[1]});
  }
  TimmArguments timm_;
  TimmViTConfig c_;
  Convolution projection_;
  Dropout position_dropout_;
  std::shared_ptr<Parameter> cls_token_, positions_;
  std::vector<TimmViTBlock> blocks_;
  std::optional<LayerNorm> norm_;
};

const RegisterTimm kTimmViT({
    .examples = "vit_base_patch16_224, deit_small_patch16_224, deit3_base_patch16_384",
    .knows = [](const std::string& name) { return timm_vit_name(name).has_value(); },
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<TimmViTNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
