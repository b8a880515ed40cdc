// SPDX-License-Identifier: Apache-2.0
// The U-Net of unconditional diffusion (Ho et al., 2020; Nichol and Dhariwal, 2021): it predicts the noise of a picture
// from the picture and the time. Refuses Fourier features and the blocks of NCSN++ by name. B batch, C channels.
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "models/diffusion/blocks/timestep_embedding.h"
#include "models/diffusion/blocks/unet_blocks.h"
#include "models/diffusion/network_record.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

struct UNet2DConfig {
  explicit UNet2DConfig(const Config& config)
      : channels(block_channels(config, {224, 448, 672, 896})),
        layers(positive(config, "layers_per_block", 2)),
        in_channels(positive(config, "in_channels", 3)),
        out_channels(positive(config, "out_channels", 3)),
        groups(positive(config, "norm_num_groups", 32)),
        time_width(config.get_int("time_embedding_dim", 4 * channels.front())),
        classes(config.get_int("num_class_embeds", 0)),
        trained(config.get_int("num_train_timesteps", 0)),
        padding(config.get_int("downsample_padding", 1)),
        epsilon(config.get_float("norm_eps", 1e-5)),
        dropout(config.get_float("dropout", 0)),
        mid_scale(config.get_float("mid_block_scale_factor", 1)),
        frequency_shift(config.get_float("freq_shift", 0)),
        centres(config.get_bool("center_input_sample", false)),
        cosines_first(config.get_bool("flip_sin_to_cos", true)),
        attends_below(config.get_bool("add_attention", true)),
        resamples_down_by_block(is_resnet(config, "downsample_type")),
        resamples_up_by_block(is_resnet(config, "upsample_type")),
        activation(diffusion_activation(config, "act_fn", "silu")),
        class_type(config.get_string("class_embed_type", classes > 0 ? "table" : "")) {
    config.get_json("sample_size");  // of the pipeline
    const std::string time = config.get_string("time_embedding_type", "positional");
    if (time != "positional" && (time != "learned" || trained < 1))
      fail(ErrorKind::kUnsupported,
           "{}: time_embedding_type: expected positional, or learned with num_train_timesteps, found {}",
           config.where(), quoted(time));
    learns_times = time == "learned";
    const std::string scale = config.get_string("resnet_time_scale_shift", "default");
    if (scale != "default" && scale != "scale_shift")
      fail(ErrorKind::kUnsupported, "{}: resnet_time_scale_shift: expected default or scale_shift, found {}",
           config.where(), quoted(scale));
    scales_by_time = scale == "scale_shift";
    if (!class_type.empty() && class_type != "table" && class_type != "timestep" && class_type != "identity")
      fail(ErrorKind::kUnsupported, "{}: class_embed_type: expected timestep or identity, found {}", config.where(),
           quoted(class_type));
    // Where the norm of the attention at the bottom is not said, there is none if the time scales.
    middle_groups = config.get_int("attn_norm_num_groups", scales_by_time ? 0 : groups);
    if (config.get_string("mid_block_type", "UNetMidBlock2D") != "UNetMidBlock2D")
      fail(ErrorKind::kUnsupported, "{}: mid_block_type: expected UNetMidBlock2D or null, found {}", config.where(),
           config.get_json("mid_block_type"));
    has_middle = config.has("mid_block_type") || !json_of(config).contains("mid_block_type");
    // null: one head; a Config does not tell it from an absent field.
    one_head = !config.has("attention_head_dim") && json_of(config).contains("attention_head_dim");
    head_width = config.get_int("attention_head_dim", 8);
  }

  static bool is_resnet(const Config& config, const std::string& field) {
    const std::string type = config.get_string(field, "conv");
    if (type != "conv" && type != "resnet")
      fail(ErrorKind::kUnsupported, "{}: {}: expected conv or resnet, found {}", config.where(), field, quoted(type));
    return type == "resnet";
  }
  ResidualOptions residual() const {
    return {.time_channels = time_width,
            .groups = groups,
            .epsilon = epsilon,
            .dropout = dropout,
            .activation = activation,
            .scales_by_time = scales_by_time};
  }
  UNetBlockOptions block(UNetBlockOptions::Attention attention, size_t i, int64_t count, bool resamples,
                         bool by_block) const {
    return {.attention = attention,
            .residual = residual(),
            .layers = count,
            .head_width = one_head ? channels[i] : head_width,
            .transformers = {},
            .resamples = resamples,
            // Blocks without attention always do it by a convolution.
            .resamples_by_block = by_block && attention == UNetBlockOptions::Attention::kMap,
            .downsample_padding = padding};
  }

  std::vector<int64_t> channels;
  int64_t layers, in_channels, out_channels, groups, time_width, classes, trained, padding;
  double epsilon, dropout, mid_scale, frequency_shift;
  bool centres, cosines_first, attends_below, resamples_down_by_block, resamples_up_by_block;
  std::string activation, class_type;
  bool learns_times = false, scales_by_time = false, has_middle = true, one_head = false;
  int64_t middle_groups = 0, head_width = 8;
};

UNetBlockOptions::Attention unconditional(const std::string& type, const char* way, const Config& config,
                                          const char* field) {
  const auto attention = block_attention(type, way, config, field);
  if (attention == UNetBlockOptions::Attention::kText)
    fail(ErrorKind::kUnsupported, "{}: {}: {} looks at a text, and UNet2DModel has none", config.where(), field, type);
  return attention;
}

class UNet2DModel : public Model {
 public:
  UNet2DModel(const Config& config, const Scope& scope)
      : c_(config),
        conv_in_(torch_convolution(scope / "conv_in", c_.in_channels, c_.channels.front(), 3)),
        time_embedding_(scope / "time_embedding", c_.channels.front(), c_.time_width),
        conv_norm_out_(scope / "conv_norm_out", c_.groups, c_.channels.front(), c_.epsilon),
        conv_out_(torch_convolution(scope / "conv_out", c_.channels.front(), c_.out_channels, 3)) {
    if (c_.learns_times) time_table_.emplace(scope / "time_proj", c_.trained, c_.channels.front(), 1.0);
    if (c_.class_type == "table") class_table_.emplace(scope / "class_embedding", c_.classes, c_.time_width, 1.0);
    if (c_.class_type == "timestep")
      class_embedding_.emplace(scope / "class_embedding", c_.channels.front(), c_.time_width);
    const std::vector<std::string> down =
        types(config, "down_block_types", {"DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"});
    const std::vector<std::string> up =
        types(config, "up_block_types", {"AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"});
    const size_t last = c_.channels.size() - 1;
    for (size_t i = 0; i <= last; ++i)
      down_.emplace_back(scope / "down_blocks" / static_cast<int64_t>(i), c_.channels[i == 0 ? 0 : i - 1],
                         c_.channels[i],
                         c_.block(unconditional(down[i], "Down", config, "down_block_types"), i, c_.layers, i != last,
                                  c_.resamples_down_by_block));
    if (c_.has_middle) {
      ResidualOptions residual = c_.residual();
      residual.output_scale = c_.mid_scale;
      mid_.emplace(scope / "mid_block", c_.channels[last],
                   UNetMidBlock::Options{.attention = c_.attends_below ? UNetBlockOptions::Attention::kMap
                                                                       : UNetBlockOptions::Attention::kNone,
                                         .residual = residual,
                                         .head_width = c_.one_head ? c_.channels[last] : c_.head_width,
                                         .attention_groups = c_.middle_groups,
                                         .transformer = {}});
    }
    for (size_t i = 0; i <= last; ++i) {
      const size_t here = last - i, below = i == 0 ? last : here + 1, above = here == 0 ? 0 : here - 1;
      up_.emplace_back(scope / "up_blocks" / static_cast<int64_t>(i), c_.channels[below], c_.channels[above],
                       c_.channels[here],
                       c_.block(unconditional(up[i], "Up", config, "up_block_types"), here, c_.layers + 1, i != last,
                                c_.resamples_up_by_block));
    }
  }

 protected:
  std::vector<std::string> input_names() const override { return {"sample", "timestep", "class_labels"}; }

  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    Tensor x = inputs.at("sample");
    if (x.rank() != 4 || x.dim(1) != c_.in_channels)
      fail("sample: expected [batch, {}, height, width], found {}", c_.in_channels, to_string(x.shape()));
    const Told told{.time = time_of(inputs, x, context), .text = {}, .text_mask = {}};
    if (c_.centres) x = x * 2.0 - 1.0;
    std::vector<Tensor> skips{x = conv_in_(x, context)};
    for (const UNetDownBlock& block : down_) x = block(x, told, skips, context);
    if (mid_) x = (*mid_)(x, told, context);
    for (const UNetUpBlock& block : up_) x = block(x, told, skips, context);
    return {{"sample", conv_out_(silu(conv_norm_out_(x, context)), context)}};
  }

 private:
  std::vector<std::string> types(const Config& config, const char* field, std::vector<std::string> otherwise) const {
    std::vector<std::string> all = config.has(field) ? config.get_strings(field) : std::move(otherwise);
    if (all.size() != c_.channels.size())
      fail("{}: {}: expected as many as block_out_channels, {}, found {}", config.where(), field, c_.channels.size(),
           all.size());
    return all;
  }

  Tensor time_of(const NamedTensors& inputs, const Tensor& x, ForwardContext& context) const {
    Tensor t = reshape(inputs.at("timestep"), {-1});
    if (t.dim(0) != x.dim(0) && t.dim(0) != 1) fail("timestep: expected 1 number or {}, found {}", x.dim(0), t.dim(0));
    t = broadcast_to(t, {x.dim(0)});
    const auto sines = [&](const Tensor& numbers) {
      if (time_table_) return (*time_table_)(cast(numbers, DType::kInt64), context);
      return cast(sinusoids(numbers, c_.channels.front(), c_.cosines_first, c_.frequency_shift), x.dtype());
    };
    Tensor time = time_embedding_(sines(t), Tensor(), context);
    if (c_.class_type.empty()) {
      if (inputs.find("class_labels").defined()) fail("class_labels: the model has no classes (num_class_embeds)");
      return time;
    }
    const Tensor& labels = inputs.at("class_labels");
    if (class_table_) return time + (*class_table_)(labels, context);
    return time + (class_embedding_ ? (*class_embedding_)(sines(labels), Tensor(), context) : cast(labels, x.dtype()));
  }

  UNet2DConfig c_;
  Convolution conv_in_;
  TimeEmbedding time_embedding_;
  std::optional<Embedding> time_table_, class_table_;
  std::optional<TimeEmbedding> class_embedding_;
  std::vector<UNetDownBlock> down_;
  std::optional<UNetMidBlock> mid_;
  std::vector<UNetUpBlock> up_;
  GroupNorm conv_norm_out_;
  Convolution conv_out_;
};

}  // namespace

static Family unet_2d_family() {
  return network_family(
      {.model_type = "unet_2d",
       .architecture = {"UNet2DModel", body_head({}, {"sample"}), make_model<UNet2DModel>},
       .inputs = FamilyInputs{{.name = "sample",
                               .kind = FamilyInput::Kind::kPixels,
                               .axes = {{.name = "num_channels", .fields = {"in_channels"}, .otherwise = 3},
                                        {.name = "height", .fields = {"sample_size.0"}, .otherwise = 64},
                                        {.name = "width", .fields = {"sample_size.1"}, .otherwise = 64}}},
                              {.name = "timestep", .kind = FamilyInput::Kind::kNumbers, .axes = {}}},
       .mark = "add_attention",
       .lora_targets = {"to_q", "to_k", "to_v"}});
}

const RegisterFamilies kUNet2DFamily{unet_2d_family};

}  // namespace transom
