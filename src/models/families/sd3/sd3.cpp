// SPDX-License-Identifier: Apache-2.0
// The transformer of Stable Diffusion 3 and 3.5 (Esser et al., 2024): it predicts the flow of a map from the map, a
// text and the time. B batch, C channels, S patches, T tokens.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/joint_transformer.h"
#include "models/diffusion/network_record.h"
#include "models/families/sd3/sd3_original.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kSd3MostLayers = 1000, kSd3Widest = int64_t{1} << 20, kSd3LargestGrid = 4096,
                  kSd3MostNewPlaces = int64_t{1} << 30;

struct Sd3Config {
  explicit Sd3Config(const Config& config)
      : in_channels(positive(config, "in_channels", 16, kSd3Widest)),
        out_channels(config.has("out_channels") || !json_of(config).contains("out_channels")
                         ? positive(config, "out_channels", 16, kSd3Widest)
                         : in_channels),
        layers(positive(config, "num_layers", 18, kSd3MostLayers)),
        text_width(positive(config, "joint_attention_dim", 4096, kSd3Widest)),
        pooled_width(positive(config, "pooled_projection_dim", 2048, kSd3Widest)),
        patch(positive(config, "patch_size", 2, 64)),
        grid(positive(config, "pos_embed_max_size", 96, kSd3LargestGrid)) {
    base = std::max<int64_t>(positive(config, "sample_size", 128, 1 << 16) / patch, 1);
    options.heads = positive(config, "num_attention_heads", 18, kSd3Widest);
    options.head_width = positive(config, "attention_head_dim", 64, kSd3Widest);
    width = options.heads * options.head_width;
    if (width > kSd3Widest)
      fail("{}: expected up to {} channels, found {} heads of {}", config.where(), kSd3Widest, options.heads,
           options.head_width);
    if (config.get_int("caption_projection_dim", 1152) != width)
      fail("{}: caption_projection_dim: expected {}, as wide as the heads together, found {}", config.where(), width,
           config.get_int("caption_projection_dim", 1152));
    const std::string norm = config.get_string("qk_norm", "");
    if (!norm.empty() && norm != "rms_norm")
      fail(ErrorKind::kUnsupported, "{}: qk_norm: expected rms_norm or null, found {}", config.where(), quoted(norm));
    options.norms = !norm.empty();
    twice.assign(static_cast<size_t>(layers), false);
    for (const int64_t layer : config.get_ints("dual_attention_layers", {})) {
      if (layer < 0 || layer >= layers)
        fail("{}: dual_attention_layers: expected numbers below num_layers, {}, found {}", config.where(), layers,
             layer);
      twice[static_cast<size_t>(layer)] = true;
    }
  }

  JointOptions block(int64_t layer) const {
    JointOptions made = options;
    made.leaves_text = layer + 1 == layers;
    made.attends_twice = twice[static_cast<size_t>(layer)];
    return made;
  }

  int64_t in_channels, out_channels, layers, text_width, pooled_width, patch, grid;
  JointOptions options;
  std::vector<bool> twice;
  int64_t width = 0, base = 1;
};

// Of a new model: sines and cosines of the column and of the row, whose unit is a patch of a map of sample_size.
std::vector<float> sines_of_places(const Sd3Config& c) {
  if (c.width % 4 != 0 || c.grid * c.grid > kSd3MostNewPlaces / c.width)
    fail("a new network of {} channels and {} x {} places: expected channels that 4 divides, and up to {} numbers",
         c.width, c.grid, c.grid, kSd3MostNewPlaces);
  const int64_t quarter = c.width / 4;
  const auto unit = static_cast<float>(static_cast<double>(c.grid) / static_cast<double>(c.base));
  std::vector<float> values;
  for (int64_t y = 0; y < c.grid; ++y)
    for (int64_t x = 0; x < c.grid; ++x)
      for (const int64_t place : {x, y})
        for (const bool sine : {true, false})
          for (int64_t i = 0; i < quarter; ++i) {
            const double angle = static_cast<double>(static_cast<float>(place) / unit) /
                                 std::pow(10000.0, static_cast<double>(i) / static_cast<double>(quarter));
            values.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
          }
  return values;
}

// Patches of a map, each with the place that it has in the middle of the largest grid.
class Sd3Patches {
 public:
  Sd3Patches(const Scope& scope, const Sd3Config& c)
      : patch_(c.patch),
        grid_(c.grid),
        projection_(scope / "proj", c.in_channels, c.width, {c.patch, c.patch},
                    torch_deviation(c.in_channels * c.patch * c.patch)),
        places_(scope.buffer("pos_embed", {DType::kFloat32, {1, c.grid * c.grid, c.width}},
                             scope.holds("pos_embed") ? Initial::zeros() : Initial::given(sines_of_places(c)))) {}

  Tensor operator()(const Tensor& map, const ForwardContext& context) const {
    const int64_t h = map.dim(2) / patch_, w = map.dim(3) / patch_, D = places_->value.dim(2);
    if (h < 1 || w < 1 || h > grid_ || w > grid_)
      fail("hidden_states: expected 1 to {} patches of {} on each side, found {} x {}", grid_, patch_, h, w);
    const int64_t top = (grid_ - h) / 2, left = (grid_ - w) / 2;
    const Tensor all = reshape(places_->value, {1, grid_, grid_, D});
    const Tensor seen = slice(slice(all, 1, top, top + h), 2, left, left + w);
    const Tensor x = projection_(map, context);
    return x + cast(reshape(seen, {1, h * w, D}), x.dtype());
  }

 private:
  int64_t patch_, grid_;
  PatchEmbeddings projection_;
  std::shared_ptr<Parameter> places_;
};

class SD3Transformer2DModel : public Model {
 public:
  SD3Transformer2DModel(const Config& config, const Scope& scope)
      : c_(config),
        patches_(scope / "pos_embed", c_),
        condition_(scope / "time_text_embed", c_.pooled_width, c_.width, false),
        context_embedder_(torch_linear(scope / "context_embedder", c_.text_width, c_.width)),
        norm_out_(scope / "norm_out", c_.width),
        proj_out_(torch_linear(scope / "proj_out", c_.width, c_.patch * c_.patch * c_.out_channels)) {
    for (int64_t i = 0; i < c_.layers; ++i)
      blocks_.emplace_back(scope / "transformer_blocks" / i, c_.width, c_.block(i));
  }

 protected:
  std::vector<std::string> input_names() const override {
    return {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"};
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& map = inputs.at("hidden_states");
    if (map.rank() != 4 || map.dim(1) != c_.in_channels)
      fail("hidden_states: expected [batch, {}, height, width], found {}", c_.in_channels, to_string(map.shape()));
    const Tensor& tokens = joint_text_input(inputs, map.dim(0), c_.text_width);
    Tensor x = patches_(map, context), text = context_embedder_(tokens, context);
    const Tensor condition = condition_(inputs.at("timestep"), Tensor(), inputs.at("pooled_projections"), context);
    for (const JointBlock& block : blocks_) block(x, text, condition, {}, context);
    x = proj_out_(norm_out_(x, condition, context), context);
    const int64_t B = map.dim(0), p = c_.patch, h = map.dim(2) / p, w = map.dim(3) / p, C = c_.out_channels;
    const Tensor made = permute(reshape(x, {B, h, w, p, p, C}), {0, 5, 1, 3, 2, 4});
    return {{"sample", reshape(made, {B, C, h * p, w * p})}};
  }

 private:
  Sd3Config c_;
  Sd3Patches patches_;
  JointCondition condition_;
  Linear context_embedder_;
  std::vector<JointBlock> blocks_;
  LastModulation norm_out_;
  Linear proj_out_;
};

FamilyInputs sd3_inputs() {
  return joint_record_inputs({.name = "hidden_states",
                              .kind = FamilyInput::Kind::kPixels,
                              .axes = {{.name = "num_channels", .fields = {"in_channels"}, .otherwise = 16},
                                       {.name = "height", .fields = {"sample_size"}, .otherwise = 128},
                                       {.name = "width", .fields = {"sample_size"}, .otherwise = 128}}},
                             4096, 2048);
}

}  // namespace

static Family sd3_family() {
  return network_family(
      {.model_type = "sd3",
       .architecture = {"SD3Transformer2DModel", body_head({}, {"sample"}), make_model<SD3Transformer2DModel>},
       .inputs = sd3_inputs(),
       .mark = "pos_embed_max_size",
       .lora_targets = {"attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "attn.to_k",
                        "attn.to_out.0", "attn.to_q", "attn.to_v"},
       .original = sd3_original()});
}

const RegisterFamilies kSd3Family{sd3_family};

}  // namespace transom
