// SPDX-License-Identifier: Apache-2.0
// ControlNet (Zhang et al., 2023): a copy of the half of a U-Net that leads down, which sees a picture beside the map,
// and says what is added to the U-Net's maps. It gives `down_block_res_samples.0` ... and `mid_block_res_sample`.
// B batch, C channels.
#include "base/error.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/text_unet.h"
#include "models/diffusion/network_record.h"
#include "models/diffusion/original_unet.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr size_t kMostControlLayers = 16;
constexpr int64_t kMostControlChannels = int64_t{1} << 16;

TextUNetConfig controlnet_config(const Config& config) {
  TextUNetConfig c(config, false);
  if (!c.has_mid)
    fail("{}: mid_block_type: expected UNetMidBlock2DCrossAttn or UNetMidBlock2D, found null", config.where());
  if (c.class_type == "simple_projection")
    fail(ErrorKind::kUnsupported, "{}: class_embed_type: ControlNetModel has no simple_projection", config.where());
  refuse_field(config, "encoder_hid_dim", "diffusers makes its projection, and does not apply it");
  return c;
}

// A picture becomes a map as large as the latents.
class ControlPicture {
 public:
  ControlPicture(const Scope& scope, const Config& config, int64_t out)
      : channels_(positive(config, "conditioning_channels", 3)) {
    const std::vector<int64_t> widths = config.get_ints("conditioning_embedding_out_channels", {16, 32, 96, 256});
    if (widths.empty() || widths.size() > kMostControlLayers)
      fail("{}: conditioning_embedding_out_channels: expected 1 to {} numbers, found {}", config.where(),
           kMostControlLayers, widths.size());
    for (const int64_t width : widths)
      if (width < 1 || width > kMostControlChannels)
        fail("{}: conditioning_embedding_out_channels: expected numbers from 1 to {}, found {}", config.where(),
             kMostControlChannels, width);
    const std::string order = config.get_string("controlnet_conditioning_channel_order", "rgb");
    if (order != "rgb" && order != "bgr")
      fail("{}: controlnet_conditioning_channel_order: expected rgb or bgr, found {}", config.where(), quoted(order));
    turns_channels_ = order == "bgr";
    layers_.push_back(torch_convolution(scope / "conv_in", channels_, widths[0], 3));
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const Scope blocks = scope / "blocks";
      const auto number = static_cast<int64_t>(2 * i);
      layers_.push_back(torch_convolution(blocks / number, widths[i], widths[i], 3));
      layers_.push_back(torch_convolution(blocks / (number + 1), widths[i], widths[i + 1], 3, 2));
    }
    layers_.push_back(torch_convolution(scope / "conv_out", widths.back(), out, 3));
  }

  Tensor operator()(Tensor x, const Tensor& sample, ForwardContext& context) const {
    if (x.rank() != 4 || x.dim(1) != channels_ || x.dim(0) != sample.dim(0))
      fail("controlnet_cond: expected [{}, {}, height, width], found {}", sample.dim(0), channels_,
           to_string(x.shape()));
    if (turns_channels_) {
      std::vector<Tensor> channels;
      for (int64_t c = channels_; c-- > 0;) channels.push_back(slice(x, 1, c, c + 1));
      x = concatenate(channels, 1);
    }
    for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i](i == 0 ? x : silu(x), context);
    if (x.dim(2) != sample.dim(2) || x.dim(3) != sample.dim(3))
      fail("controlnet_cond: its map is {}, and the sample {}", to_string(x.shape()), to_string(sample.shape()));
    return x;
  }

 private:
  int64_t channels_;
  bool turns_channels_ = false;
  std::vector<Convolution> layers_;
};

class ControlNetModel : public Model {
 public:
  ControlNetModel(const Config& config, const Scope& scope)
      : c_(controlnet_config(config)),
        pools_(config.get_bool("global_pool_conditions", false)),
        encoder_(scope, c_, config),
        picture_(scope / "controlnet_cond_embedding", config, c_.channels.front()),
        middle_(torch_convolution(scope / "controlnet_mid_block", c_.channels.back(), c_.channels.back(), 1)) {
    const Scope blocks = scope / "controlnet_down_blocks";
    for (const int64_t channels : c_.skip_channels()) {
      const auto number = static_cast<int64_t>(down_.size());
      down_.push_back(torch_convolution(blocks / number, channels, channels, 1));
    }
  }

 protected:
  std::vector<std::string> input_names() const override {
    return {"sample",      "timestep", "encoder_hidden_states", "controlnet_cond", "conditioning_scale", "class_labels",
            "text_embeds", "time_ids"};
  }

  // conditioning_scale: what the maps are multiplied by, a number, or one for each of them, the last of the bottom.
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& sample = inputs.at("sample");
    c_.check_sample(sample);
    const Told told = encoder_.told(inputs, sample.dim(0), context);
    std::vector<Tensor> maps;
    const Tensor seen = picture_(inputs.at("controlnet_cond"), sample, context);
    const Tensor bottom = encoder_(encoder_.first(sample, context) + seen, told, maps, context);
    maps.push_back(bottom);
    NamedTensors outputs;
    const Tensor scales = inputs.find("conditioning_scale");
    const auto count = static_cast<int64_t>(maps.size());
    if (scales.defined() && (scales.rank() != 1 || (scales.dim(0) != 1 && scales.dim(0) != count)))
      fail("conditioning_scale: expected 1 number or {}, found {}", count, to_string(scales.shape()));
    for (int64_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      const auto place = static_cast<size_t>(i);
      Tensor map = (last ? middle_ : down_[place])(maps[place], context);
      if (scales.defined()) {
        const Tensor scale = scales.dim(0) == 1 ? scales : slice(scales, 0, i, i + 1);
        map = map * cast(reshape(scale, {1, 1, 1, 1}), map.dtype());
      }
      if (pools_) map = mean(map, {2, 3}, true);
      outputs.set(last ? "mid_block_res_sample" : fmt::format("down_block_res_samples.{}", i), map);
    }
    return outputs;
  }

 private:
  TextUNetConfig c_;
  bool pools_;
  TextUNetEncoder encoder_;
  ControlPicture picture_;
  std::vector<Convolution> down_;
  Convolution middle_;
};

FamilyInputs controlnet_inputs() {
  using enum FamilyInput::Kind;
  return {{.name = "sample",
           .kind = kPixels,
           .axes = {{.name = "num_channels", .fields = {"in_channels"}, .otherwise = 4},
                    {.name = "height", .fields = {"sample_size.0"}, .otherwise = 64},
                    {.name = "width", .fields = {"sample_size.1"}, .otherwise = 64}}},
          {.name = "timestep", .kind = kNumbers, .axes = {}},
          {.name = "encoder_hidden_states",
           .kind = kNumbers,
           .axes = {{.name = "sequence_length"},
                    {.name = "hidden_size", .fields = {"cross_attention_dim.0"}, .otherwise = 1280}}},
          {.name = "controlnet_cond",
           .kind = kPixels,
           .axes = {{.name = "conditioning_channels", .fields = {"conditioning_channels"}, .otherwise = 3},
                    {.name = "picture_height", .fields = {"sample_size.0"}, .otherwise = 64, .times = 8},
                    {.name = "picture_width", .fields = {"sample_size.1"}, .otherwise = 64, .times = 8}}}};
}

}  // namespace

static Family controlnet_family() {
  return network_family(
      {.model_type = "controlnet",
       .architecture = {"ControlNetModel", body_head({}, {"mid_block_res_sample"}), make_model<ControlNetModel>},
       .inputs = controlnet_inputs(),
       .mark = "conditioning_embedding_out_channels",
       .original = controlnet_original()});
}

const RegisterFamilies kControlNetFamily{controlnet_family};

}  // namespace transom
