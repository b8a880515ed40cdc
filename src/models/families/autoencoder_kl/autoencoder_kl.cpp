// SPDX-License-Identifier: Apache-2.0
// The autoencoder of latent diffusion (Rombach et al., 2022): pictures become maps of an eighth of their size, which
// are distributions, and maps pictures. From `sample` [B, 3, H, W] it gives `latent_mean` and `latent_log_variance`
// [B, L, h, w] and the picture that it makes of the mean; from `latents` it gives the picture. What nobody asks for is
// not computed.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/diffusion/blocks/unet_blocks.h"
#include "models/diffusion/network_record.h"
#include "models/families/autoencoder_kl/autoencoder_kl_original.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr double kAutoencoderEpsilon = 1e-6;

struct AutoencoderConfig {
  explicit AutoencoderConfig(const Config& config)
      : channels(block_channels(config, {64})),
        layers(positive(config, "layers_per_block", 1)),
        in_channels(positive(config, "in_channels", 3)),
        out_channels(positive(config, "out_channels", 3)),
        latent_channels(positive(config, "latent_channels", 4)),
        groups(positive(config, "norm_num_groups", 32)),
        activation(diffusion_activation(config, "act_fn", "silu")),
        quantizes(config.get_bool("use_quant_conv", true)),
        quantizes_back(config.get_bool("use_post_quant_conv", true)),
        attends_below(config.get_bool("mid_block_add_attention", true)) {
    check_types(config, "down_block_types", "DownEncoderBlock2D");
    check_types(config, "up_block_types", "UpDecoderBlock2D");
    // What scales and shifts latents is the pipeline's; the decoder is in the type that it is loaded in.
    for (const char* field :
         {"sample_size", "scaling_factor", "shift_factor", "latents_mean", "latents_std", "force_upcast"})
      config.get_json(field);
  }

  void check_types(const Config& config, const std::string& field, const std::string& expected) const {
    std::vector<std::string> types = config.get_strings(field);
    if (!config.has(field)) types = {expected};
    if (types.size() != channels.size())
      fail("{}: {}: expected as many as block_out_channels, {}, found {}", config.where(), field, channels.size(),
           types.size());
    for (const std::string& type : types)
      if (type != expected)
        fail(ErrorKind::kUnsupported, "{}: {}: expected {}, found {}", config.where(), field, expected, quoted(type));
  }

  ResidualOptions residual() const {
    return {.groups = groups, .epsilon = kAutoencoderEpsilon, .activation = activation};
  }
  UNetBlockOptions block(int64_t count, bool resamples) const {
    return {
        .residual = residual(), .layers = count, .transformers = {}, .resamples = resamples, .downsample_padding = 0};
  }
  UNetMidBlock::Options middle() const {
    return {.attention = attends_below ? UNetBlockOptions::Attention::kMap : UNetBlockOptions::Attention::kNone,
            .residual = residual(),
            .head_width = channels.back(),
            .attention_groups = groups,
            .transformer = {}};
  }

  std::vector<int64_t> channels;
  int64_t layers, in_channels, out_channels, latent_channels, groups;
  std::string activation;
  bool quantizes, quantizes_back, attends_below;
};

class AutoencoderEncoder {
 public:
  AutoencoderEncoder(const Scope& scope, const AutoencoderConfig& c)
      : conv_in_(torch_convolution(scope / "conv_in", c.in_channels, c.channels.front(), 3)),
        mid_(scope / "mid_block", c.channels.back(), c.middle()),
        conv_norm_out_(scope / "conv_norm_out", c.groups, c.channels.back(), kAutoencoderEpsilon),
        conv_out_(torch_convolution(scope / "conv_out", c.channels.back(), 2 * c.latent_channels, 3)) {
    for (size_t i = 0; i < c.channels.size(); ++i)
      down_.emplace_back(scope / "down_blocks" / static_cast<int64_t>(i), c.channels[i == 0 ? 0 : i - 1], c.channels[i],
                         c.block(c.layers, i + 1 != c.channels.size()));
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    std::vector<Tensor> maps;  // which nobody takes back
    x = conv_in_(x, context);
    for (const UNetDownBlock& block : down_) x = block(x, {}, maps, context);
    return conv_out_(silu(conv_norm_out_(mid_(x, {}, context), context)), context);
  }

 private:
  Convolution conv_in_;
  std::vector<UNetDownBlock> down_;
  UNetMidBlock mid_;
  GroupNorm conv_norm_out_;
  Convolution conv_out_;
};

class AutoencoderDecoder {
 public:
  AutoencoderDecoder(const Scope& scope, const AutoencoderConfig& c)
      : conv_in_(torch_convolution(scope / "conv_in", c.latent_channels, c.channels.back(), 3)),
        mid_(scope / "mid_block", c.channels.back(), c.middle()),
        conv_norm_out_(scope / "conv_norm_out", c.groups, c.channels.front(), kAutoencoderEpsilon),
        conv_out_(torch_convolution(scope / "conv_out", c.channels.front(), c.out_channels, 3)) {
    const size_t last = c.channels.size() - 1;
    for (size_t i = 0; i <= last; ++i) {
      const Scope block = scope / "up_blocks" / static_cast<int64_t>(i);
      const int64_t out = c.channels[last - i];
      std::vector<int64_t> in(static_cast<size_t>(c.layers) + 1, out);
      in.front() = c.channels[i == 0 ? last : last - i + 1];
      up_.emplace_back(block, in, out, c.block(c.layers + 1, i != last));
      if (i != last) upsample_.emplace_back(block / "upsamplers" / 0, out);
    }
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    x = mid_(conv_in_(x, context), {}, context);
    for (size_t i = 0; i < up_.size(); ++i) {
      for (size_t layer = 0; layer < up_[i].size(); ++layer) x = up_[i](layer, x, {}, context);
      if (i < upsample_.size()) x = upsample_[i](x, context);
    }
    return conv_out_(silu(conv_norm_out_(x, context)), context);
  }

 private:
  Convolution conv_in_;
  UNetMidBlock mid_;
  std::vector<UNetLayers> up_;
  std::vector<DiffusionUpsample> upsample_;
  GroupNorm conv_norm_out_;
  Convolution conv_out_;
};

class AutoencoderKL : public Model {
 public:
  AutoencoderKL(const Config& config, const Scope& scope)
      : c_(config), encoder_(scope / "encoder", c_), decoder_(scope / "decoder", c_) {
    if (c_.quantizes)
      quant_conv_ = torch_convolution(scope / "quant_conv", 2 * c_.latent_channels, 2 * c_.latent_channels, 1);
    if (c_.quantizes_back)
      post_quant_conv_ = torch_convolution(scope / "post_quant_conv", c_.latent_channels, c_.latent_channels, 1);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"sample", "latents"}; }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    if (const Tensor latents = inputs.find("latents"); latents.defined()) {
      if (latents.rank() != 4 || latents.dim(1) != c_.latent_channels)
        fail("latents: expected [batch, {}, height, width], found {}", c_.latent_channels, to_string(latents.shape()));
      return {{"sample", decoded(latents, context)}};
    }
    const Tensor& sample = inputs.at("sample");
    if (sample.rank() != 4 || sample.dim(1) != c_.in_channels)
      fail("sample: expected [batch, {}, height, width], found {}", c_.in_channels, to_string(sample.shape()));
    Tensor moments = encoder_(sample, context);
    if (quant_conv_) moments = (*quant_conv_)(moments, context);
    const Tensor mean = slice(moments, 1, 0, c_.latent_channels);
    const Tensor spread = slice(moments, 1, c_.latent_channels, 2 * c_.latent_channels);
    const Tensor bounded = minimum(maximum(spread, constant(-30, spread.dtype())), constant(20, spread.dtype()));
    return {{"sample", decoded(mean, context)}, {"latent_mean", mean}, {"latent_log_variance", bounded}};
  }

 private:
  Tensor decoded(const Tensor& latents, ForwardContext& context) const {
    return decoder_(post_quant_conv_ ? (*post_quant_conv_)(latents, context) : latents, context);
  }

  AutoencoderConfig c_;
  AutoencoderEncoder encoder_;
  AutoencoderDecoder decoder_;
  std::optional<Convolution> quant_conv_, post_quant_conv_;
};

}  // namespace

static Family autoencoder_kl_family() {
  return network_family(
      {.model_type = "autoencoder_kl",
       .architecture = {"AutoencoderKL", body_head({}, {"sample", "latent_mean", "latent_log_variance"}),
                        make_model<AutoencoderKL>},
       .inputs = FamilyInputs{{.name = "sample",
                               .kind = FamilyInput::Kind::kPixels,
                               .axes = {{.name = "num_channels", .fields = {"in_channels"}, .otherwise = 3},
                                        {.name = "height", .fields = {"sample_size.0"}, .otherwise = 32},
                                        {.name = "width", .fields = {"sample_size.1"}, .otherwise = 32}}}},
       .mark = "latent_channels",
       .original = autoencoder_kl_original()});
}

const RegisterFamilies kAutoencoderKlFamily{autoencoder_kl_family};

}  // namespace transom
