// SPDX-License-Identifier: Apache-2.0
// The transformer of FLUX.1 (Black Forest Labs, 2024): it predicts the flow of a map, whose patches are rows of
// hidden_states, from them, a text, the time and, where it is distilled, the guidance. Time and guidance are given as
// diffusers gives them, a thousandth of what the network is told. B batch, S patches, T tokens.
#include <cmath>

#include "base/error.h"
#include "models/diffusion/blocks/joint_transformer.h"
#include "models/diffusion/network_record.h"
#include "models/families/flux/flux_original.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr double kFluxTheta = 10000;
constexpr int64_t kFluxMostLayers = 1000, kFluxWidest = int64_t{1} << 20;

struct FluxConfig {
  explicit FluxConfig(const Config& config)
      : in_channels(positive(config, "in_channels", 64, kFluxWidest)),
        out_channels(config.has("out_channels") ? positive(config, "out_channels", 64, kFluxWidest) : in_channels),
        layers(config.get_int("num_layers", 19)),
        single_layers(config.get_int("num_single_layers", 38)),
        text_width(positive(config, "joint_attention_dim", 4096, kFluxWidest)),
        pooled_width(positive(config, "pooled_projection_dim", 768, kFluxWidest)),
        has_guidance(config.get_bool("guidance_embeds", false)),
        axes(config.get_ints("axes_dims_rope", {16, 56, 56})) {
    options.heads = positive(config, "num_attention_heads", 24, kFluxWidest);
    options.head_width = positive(config, "attention_head_dim", 128, kFluxWidest);
    width = options.heads * options.head_width;
    const int64_t patch = positive(config, "patch_size", 1, kFluxWidest);
    if (patch > 64) fail("{}: patch_size: expected 1 to 64, found {}", config.where(), patch);
    out_width = patch * patch * out_channels;
    if (width > kFluxWidest || layers < 0 || layers > kFluxMostLayers || single_layers < 0 ||
        single_layers > kFluxMostLayers)
      fail(
          "{}: expected up to {} layers of each kind and up to {} channels, found num_layers = {}, "
          "num_single_layers = {} and {} channels",
          config.where(), kFluxMostLayers, kFluxWidest, layers, single_layers, width);
    int64_t sum = 0;
    for (const int64_t axis : axes) {
      if (axis < 2 || axis % 2 != 0 || axis > options.head_width)
        fail("{}: axes_dims_rope: expected even numbers from 2, found {}", config.where(), axis);
      sum += axis;
    }
    if (axes.empty() || axes.size() > 8 || sum != options.head_width)
      fail("{}: axes_dims_rope: expected numbers whose sum is attention_head_dim, {}, found {}", config.where(),
           options.head_width, config.get_json("axes_dims_rope"));
  }

  int64_t in_channels, out_channels, layers, single_layers, text_width, pooled_width;
  bool has_guidance;
  std::vector<int64_t> axes;
  JointOptions options;
  int64_t width = 0, out_width = 0;
};

class FluxTransformer2DModel : public Model {
 public:
  FluxTransformer2DModel(const Config& config, const Scope& scope)
      : c_(config),
        condition_(scope / "time_text_embed", c_.pooled_width, c_.width, c_.has_guidance),
        context_embedder_(torch_linear(scope / "context_embedder", c_.text_width, c_.width)),
        x_embedder_(torch_linear(scope / "x_embedder", c_.in_channels, c_.width)),
        norm_out_(scope / "norm_out", c_.width),
        proj_out_(torch_linear(scope / "proj_out", c_.width, c_.out_width)) {
    for (int64_t i = 0; i < c_.layers; ++i)
      blocks_.emplace_back(scope / "transformer_blocks" / i, c_.width, c_.options);
    for (int64_t i = 0; i < c_.single_layers; ++i)
      single_blocks_.emplace_back(scope / "single_transformer_blocks" / i, c_.width, c_.options);
  }

 protected:
  std::vector<std::string> input_names() const override {
    return {"hidden_states", "encoder_hidden_states", "pooled_projections", "timestep", "img_ids", "txt_ids",
            "guidance"};
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& patches = inputs.at("hidden_states");
    if (patches.rank() != 3 || patches.dim(2) != c_.in_channels)
      fail("hidden_states: expected [batch, patches, {}], found {}", c_.in_channels, to_string(patches.shape()));
    const Tensor& tokens = joint_text_input(inputs, patches.dim(0), c_.text_width);
    Tensor x = x_embedder_(patches, context), text = context_embedder_(tokens, context);
    const auto thousandfold = [&](const Tensor& numbers) {
      return numbers.defined() ? cast(numbers, DType::kFloat32) * 1000.0 : numbers;
    };
    const Tensor condition = condition_(thousandfold(inputs.at("timestep")), thousandfold(inputs.find("guidance")),
                                        inputs.at("pooled_projections"), context);
    const int64_t T = text.dim(1);
    const Tensor ids = concatenate({places(inputs, "txt_ids", T), places(inputs, "img_ids", x.dim(1))}, 0);
    const PlaceAngles angles = angles_of(ids);
    for (const JointBlock& block : blocks_) block(x, text, condition, angles, context);
    if (!single_blocks_.empty()) {
      Tensor both = concatenate({text, x}, 1);
      for (const SingleStreamBlock& block : single_blocks_) both = block(both, condition, angles, context);
      x = slice(both, 1, T, both.dim(1));
    }
    return {{"sample", proj_out_(norm_out_(x, condition, context), context)}};
  }

 private:
  Tensor places(const NamedTensors& inputs, const char* name, int64_t count) const {
    const Tensor& ids = inputs.at(name);
    if (ids.rank() != 2 || ids.dim(0) != count || ids.dim(1) != static_cast<int64_t>(c_.axes.size()))
      fail("{}: expected [{}, {}], found {}", name, count, c_.axes.size(), to_string(ids.shape()));
    return cast(ids, DType::kFloat32);
  }

  // Each axis turns channels of its own.
  PlaceAngles angles_of(const Tensor& ids) const {
    std::vector<Tensor> all;
    for (size_t axis = 0; axis < c_.axes.size(); ++axis) {
      const int64_t half = c_.axes[axis] / 2;
      std::vector<float> frequencies;
      for (int64_t i = 0; i < half; ++i)
        frequencies.push_back(static_cast<float>(
            1 / std::pow(kFluxTheta, 2 * static_cast<double>(i) / static_cast<double>(c_.axes[axis]))));
      const auto place = static_cast<int64_t>(axis);
      all.push_back(slice(ids, 1, place, place + 1) * Tensor::from(frequencies, {1, half}));
    }
    const Tensor angles = reshape(concatenate(all, 1), {1, ids.dim(0), 1, c_.options.head_width / 2, 1});
    return {cos(angles), sin(angles)};
  }

  FluxConfig c_;
  JointCondition condition_;
  Linear context_embedder_, x_embedder_;
  std::vector<JointBlock> blocks_;
  std::vector<SingleStreamBlock> single_blocks_;
  LastModulation norm_out_;
  Linear proj_out_;
};

FamilyInputs flux_inputs() {
  return joint_record_inputs(
      {.name = "hidden_states",
       .kind = FamilyInput::Kind::kNumbers,
       .axes = {{.name = "patches"}, {.name = "num_channels", .fields = {"in_channels"}, .otherwise = 64}}},
      4096, 768);
}

}  // namespace

static Family flux_family() {
  return network_family(
      {.model_type = "flux",
       .architecture = {"FluxTransformer2DModel", body_head({}, {"sample"}), make_model<FluxTransformer2DModel>},
       .inputs = flux_inputs(),
       .mark = "axes_dims_rope",
       .lora_targets = {"attn.to_k", "attn.to_q", "attn.to_v", "attn.to_out.0", "attn.add_k_proj", "attn.add_q_proj",
                        "attn.add_v_proj", "attn.to_add_out", "ff.net.0.proj", "ff.net.2", "ff_context.net.0.proj",
                        "ff_context.net.2"},
       .original = flux_original()});
}

const RegisterFamilies kFluxFamily{flux_family};

}  // namespace transom
