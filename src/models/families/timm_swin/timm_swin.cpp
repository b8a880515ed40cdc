// SPDX-License-Identifier: Apache-2.0
// timm's Swin: the stages of ../swin under timm's names. The name of the architecture says the shape, and model_args
// change it. Pictures are of one size, which decides how large windows are. B batch, L places of a grid, C channels.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/families/swin/swin_stages.h"
#include "models/families/timm_wrapper/timm_network.h"

namespace transom {
namespace {

constexpr int64_t kMostTimmSwinWidth = 1 << 14, kMostTimmSwinDepth = 1024, kMostTimmSwinSide = 1 << 13,
                  kMostTimmSwinWindow = 64;
constexpr size_t kMostTimmSwinStages = 16;
constexpr double kTimmSwinEpsilon = 1e-5;

struct TimmSwinShape {
  std::string_view name;
  int64_t image, width;
  std::vector<int64_t> depths, heads, windows;  // of each stage
};

const std::vector<TimmSwinShape>& timm_swin_shapes() {
  static const std::vector<int64_t> narrow = {3, 6, 12, 24}, middle = {4, 8, 16, 32}, wide = {6, 12, 24, 48};
  static const std::vector<int64_t> shallow = {2, 2, 6, 2}, deep = {2, 2, 18, 2}, sevens = {7, 7, 7, 7},
                                    twelves = {12, 12, 12, 12};
  static const std::vector<TimmSwinShape> all = {{"swin_tiny_patch4_window7_224", 224, 96, shallow, narrow, sevens},
                                                 {"swin_small_patch4_window7_224", 224, 96, deep, narrow, sevens},
                                                 {"swin_base_patch4_window7_224", 224, 128, deep, middle, sevens},
                                                 {"swin_base_patch4_window12_384", 384, 128, deep, middle, twelves},
                                                 {"swin_large_patch4_window7_224", 224, 192, deep, wide, sevens},
                                                 {"swin_large_patch4_window12_384", 384, 192, deep, wide, twelves},
                                                 {"swin_s3_tiny_224", 224, 96, shallow, narrow, {7, 7, 14, 7}},
                                                 {"swin_s3_small_224", 224, 96, deep, narrow, {14, 14, 14, 7}},
                                                 {"swin_s3_base_224", 224, 96, {2, 2, 30, 2}, narrow, {7, 7, 14, 7}}};
  return all;
}

const TimmSwinShape* find_timm_swin(const std::string& name) {
  const auto& all = timm_swin_shapes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const TimmSwinShape& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Extents timm_swin_pair(const Config& given, const char* field, int64_t otherwise) {
  const Extents both = given.get_pair(field, otherwise);
  for (const int64_t side : both)
    if (side < 1 || side > kMostTimmSwinSide)
      fail("{}: {}: expected 1 to {}, found {}", given.where(), field, kMostTimmSwinSide, side);
  return both;
}

// One number for all stages, one or two for each; a list of two numbers is of height and width.
std::vector<Extents> timm_swin_windows(const Config& given, const std::vector<int64_t>& said, size_t stages) {
  const Json windows = given.has("window_size") ? json_of(given)["window_size"] : Json(said);
  const auto number = [](const Json& value) {
    return value.is_number_integer() && value.get<int64_t>() > 0 && value.get<int64_t>() <= kMostTimmSwinSide;
  };
  const auto is_pair = [&](const Json& value) {
    return value.is_array() && value.size() == 2 && number(value[0]) && number(value[1]);
  };
  const auto sides = [&](const Json& value) {
    if (number(value)) return Extents{value.get<int64_t>(), value.get<int64_t>()};
    if (is_pair(value)) return Extents{value[0].get<int64_t>(), value[1].get<int64_t>()};
    fail("{}: window_size: expected numbers from 1 to {}, or pairs of them, one a stage of {}, found {}", given.where(),
         kMostTimmSwinSide, stages, quoted(dump_json(windows)));
  };
  if (!windows.is_array() || is_pair(windows)) return std::vector<Extents>(stages, sides(windows));
  if (windows.size() != stages)
    fail("{}: window_size: expected one of each of {} stages, found {}", given.where(), stages, windows.size());
  std::vector<Extents> all;
  for (const Json& value : windows) all.push_back(sides(value));
  return all;
}

SwinForm timm_swin_form() {
  return {.norm_before = "norm1",
          .norm_after = "norm2",
          .attention = "attn",
          .attention_output = "attn.proj",
          .widening = "mlp.fc1",
          .narrowing = "mlp.fc2",
          .query_key_value = "qkv",
          .merges_first = true,
          .rolls_first = true,
          .drops_both_paths = true,
          .drops_inside = true};
}

struct TimmSwinConfig : SwinStagesConfig {
  explicit TimmSwinConfig(const TimmArguments& timm) : TimmSwinConfig(timm, *find_timm_swin(timm.name)) {}
  Extents image, patch;
  std::vector<Extents> grids;  // of each stage
  std::string global_pool;

 private:
  TimmSwinConfig(const TimmArguments& timm, const TimmSwinShape& named)
      : SwinStagesConfig{.embed_dim = positive(timm.given, "embed_dim", named.width, kMostTimmSwinWidth),
                         .window_size = 0,
                         .depths = timm.given.get_ints("depths", named.depths),
                         .num_heads = timm.given.get_ints("num_heads", named.heads),
                         .mlp_ratio = timm.given.get_float("mlp_ratio", 4),
                         .hidden_dropout_prob = timm.given.get_float("proj_drop_rate", 0),
                         .attention_probs_dropout_prob = timm.given.get_float("attn_drop_rate", 0),
                         .drop_path_rate = timm.given.get_float("drop_path_rate", 0.1),
                         .layer_norm_eps = kTimmSwinEpsilon,
                         .deviation = 0.02,
                         .hidden_act = "gelu",
                         .qkv_bias = timm.given.get_bool("qkv_bias", true),
                         .form = timm_swin_form()} {
    const Config& given = timm.given;
    check(given.where());
    if (depths.size() > kMostTimmSwinStages || num_heads.size() != depths.size())
      fail("{}: depths and num_heads: expected one number a stage each, of 1 to {} stages, found {} and {}",
           given.where(), kMostTimmSwinStages, depths.size(), num_heads.size());
    for (const int64_t depth : depths)
      if (depth < 1 || depth > kMostTimmSwinDepth)
        fail("{}: depths: expected numbers from 1 to {}, found {}", given.where(), kMostTimmSwinDepth, depth);
    if (width() > kMostTimmSwinWidth)
      fail("{}: embed_dim: expected one that grows to {} or less, found {}", given.where(), kMostTimmSwinWidth,
           embed_dim);
    if (!(mlp_ratio * static_cast<double>(embed_dim) >= 1) || mlp_ratio > 64)
      fail("{}: mlp_ratio: expected one that makes numbers, and 64 or less, found {}", given.where(), mlp_ratio);
    image = timm_swin_pair(given, "img_size", named.image);
    patch = timm_swin_pair(given, "patch_size", 4);
    read_windows(given, named);
    global_pool = timm.pooling("avg");
    for (const char* flag : {"always_partition", "dynamic_img_size"})
      if (given.get_bool(flag, false)) fail(ErrorKind::kUnsupported, "{}: {} is not carried out", given.where(), flag);
    if (!given.get_bool("strict_img_size", true))
      fail(ErrorKind::kUnsupported, "{}: strict_img_size: false is not carried out", given.where());
    timm.expect_all_read();
  }

  // A window is no larger than its grid, and is not shifted along an axis that it fills.
  void read_windows(const Config& given, const TimmSwinShape& named) {
    const std::vector<Extents> wanted = timm_swin_windows(given, named.windows, depths.size());
    Extents grid{image[0] / patch[0], image[1] / patch[1]};
    if (grid[0] < 1 || grid[1] < 1)
      fail("{}: patch_size: expected one that fits into {} x {} pixels, found {} x {}", given.where(), image[0],
           image[1], patch[0], patch[1]);
    for (size_t i = 0; i < depths.size(); ++i) {
      if (i > 0) grid = SwinStages::merged(grid);
      grids.push_back(grid);
      SwinWindows stage{};
      for (const size_t axis : {0u, 1u}) {
        stage.sides[axis] = std::min(wanted[i][axis], grid[axis]);
        stage.shift[axis] = grid[axis] <= stage.sides[axis] ? 0 : wanted[i][axis] / 2;
        if (stage.sides[axis] > kMostTimmSwinWindow)
          fail("{}: window_size: expected windows of at most {} places, found {}", given.where(), kMostTimmSwinWindow,
               stage.sides[axis]);
      }
      windows.push_back(stage);
    }
  }
};

class TimmSwinNetwork : public TimmNetwork {
 public:
  TimmSwinNetwork(const Config& config, const Scope& scope) : TimmSwinNetwork(TimmArguments(config), scope) {}
  TimmSwinNetwork(const TimmArguments& timm, const Scope& scope)
      : timm_(timm),
        c_(timm),
        patches_(scope / "patch_embed.proj", timm.in_chans, c_.embed_dim, c_.patch, c_.deviation),
        patches_norm_(scope / "patch_embed.norm", c_.embed_dim, kTimmSwinEpsilon),
        stages_(scope / "layers", c_),
        norm_(scope / "norm", c_.width(), kTimmSwinEpsilon) {}

  Facts facts() const override {
    return {timm_.in_chans, timm_.num_classes, c_.width() * timm_pooled_parts(c_.global_pool), "head.fc"};
  }

  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const override {
    if (size_of(image) != c_.image)
      fail("pixel_values: expected {} x {} pixels (img_size), found {}", c_.image[0], c_.image[1],
           to_string(image.shape()));
    std::vector<Tensor> states = stages_(patches_norm_(patches_(image, context), context), c_.grids[0], context);
    states.erase(states.begin());  // timm gives those of the stages alone
    const Tensor last = norm_(states.back(), context);
    if (context.output_hidden_states)
      for (size_t i = 0; i < states.size(); ++i) states[i] = map_of(states[i], c_.grids[i]);
    const Extents grid = c_.grids.back();
    const Tensor pooled = timm_pooled(map_of(last, grid), c_.global_pool);
    return {reshape(last, {last.dim(0), grid[0], grid[1], c_.width()}), Dropout(timm_.drop_rate)(pooled, context),
            states};
  }

 private:
  static Tensor map_of(const Tensor& x, Extents grid) {  // [B, L, C] -> [B, C, h, w]
    return reshape(permute(x, {0, 2, 1}), {x.dim(0), x.dim(2), grid[0], grid[1]});
  }
  TimmArguments timm_;
  TimmSwinConfig c_;
  PatchEmbeddings patches_;
  LayerNorm patches_norm_;
  SwinStages stages_;
  LayerNorm norm_;
};

const RegisterTimm kTimmSwin({
    .examples = "swin_tiny_patch4_window7_224, swin_s3_base_224",
    .knows = [](const std::string& name) { return find_timm_swin(name) != nullptr; },
    .make = [](const Config& config, const Scope& scope) -> std::unique_ptr<TimmNetwork> {
      return std::make_unique<TimmSwinNetwork>(config, scope);
    },
});

}  // namespace
}  // namespace transom
