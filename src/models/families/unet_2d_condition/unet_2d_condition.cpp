// SPDX-License-Identifier: Apache-2.0
// The U-Net of Stable Diffusion (Rombach et al., 2022) and its kind: it predicts the noise of a map from the map, the
// time and a text. What is not carried out is refused by name: GLIGEN, dual attention, embeddings of pictures, the
// blocks of DeepFloyd and Kandinsky. B batch, C channels, T tokens, D width of the text.
#include "base/error.h"
#include "models/diffusion/blocks/text_unet.h"
#include "models/diffusion/network_record.h"
#include "models/diffusion/original_unet.h"

namespace transom {
namespace {

class UNet2DConditionModel : public Model {
 public:
  UNet2DConditionModel(const Config& config, const Scope& scope)
      : c_(config, true),
        encoder_(scope, c_, config),
        conv_norm_out_(scope / "conv_norm_out", c_.groups, c_.channels.front(), c_.epsilon),
        conv_out_(torch_convolution(scope / "conv_out", c_.channels.front(), c_.out_channels, c_.out_window)) {
    const size_t last = c_.channels.size() - 1;
    for (size_t i = 0; i <= last; ++i) {
      const size_t here = last - i, below = i == 0 ? last : here + 1, above = here == 0 ? 0 : here - 1;
      up_.emplace_back(scope / "up_blocks" / static_cast<int64_t>(i), c_.channels[below], c_.channels[above],
                       c_.channels[here],
                       c_.block(here, block_attention(c_.up_types[i], "Up", config, "up_block_types"),
                                c_.layers[here] + 1, c_.up_transformers[i], i != last));
    }
  }

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names{"sample",        "timestep",     "encoder_hidden_states", "encoder_attention_mask",
                                   "timestep_cond", "class_labels", "text_embeds",           "time_ids",
                                   kMidResidual};
    for (int64_t i = 0; i < c_.skips(); ++i) names.push_back(down_residual(i));
    return names;
  }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& sample = inputs.at("sample");
    c_.check_sample(sample);
    const Told told = encoder_.told(inputs, sample.dim(0), context);
    std::vector<Tensor> skips;
    Tensor x = encoder_(encoder_.first(sample, context), told, skips, context);
    add_residuals(inputs, skips, x);
    for (const UNetUpBlock& block : up_) x = block(x, told, skips, context);
    return {{"sample", conv_out_(activation(c_.activation, conv_norm_out_(x, context)), context)}};
  }

 private:
  // What a ControlNet says of the maps: all of them, or none.
  static void add_residuals(const NamedTensors& inputs, std::vector<Tensor>& skips, Tensor& bottom) {
    const Tensor mid = inputs.find(kMidResidual);
    for (size_t i = 0; i < skips.size(); ++i) {
      const std::string name = down_residual(static_cast<int64_t>(i));
      const Tensor residual = inputs.find(name);
      if (residual.defined() != mid.defined())
        fail("{}: expected all residuals of a ControlNet or none, and {} is missing", kMidResidual,
             mid.defined() ? name : kMidResidual);
      if (residual.defined()) skips[i] = skips[i] + residual;
    }
    if (mid.defined()) bottom = bottom + mid;
  }

  TextUNetConfig c_;
  TextUNetEncoder encoder_;
  std::vector<UNetUpBlock> up_;
  GroupNorm conv_norm_out_;
  Convolution conv_out_;
};

FamilyInputs unet_2d_condition_inputs() {
  using enum FamilyInput::Kind;
  return {
      {.name = "sample",
       .kind = kPixels,
       .axes = {{.name = "num_channels", .fields = {"in_channels"}, .otherwise = 4},
                {.name = "height", .fields = {"sample_size.0"}, .otherwise = 64},
                {.name = "width", .fields = {"sample_size.1"}, .otherwise = 64}}},
      {.name = "timestep", .kind = kNumbers, .axes = {}},
      {.name = "encoder_hidden_states",
       .kind = kNumbers,
       .axes = {{.name = "sequence_length"},
                {.name = "hidden_size", .fields = {"encoder_hid_dim", "cross_attention_dim.0"}, .otherwise = 1280}}}};
}

}  // namespace

static Family unet_2d_condition_family() {
  return network_family(
      {.model_type = "unet_2d_condition",
       .architecture = {"UNet2DConditionModel", body_head({}, {"sample"}), make_model<UNet2DConditionModel>},
       .inputs = unet_2d_condition_inputs(),
       .mark = "cross_attention_dim",
       .original = unet_original()});
}

const RegisterFamilies kUNet2DConditionFamily{unet_2d_condition_family};

}  // namespace transom
