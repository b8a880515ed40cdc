// SPDX-License-Identifier: Apache-2.0
// Swin (Liu et al., 2021): attention inside windows, which every second block shifts by half; patches are merged
// between stages. B batch, L = h w places of the grid, C channels, M window side, W windows of an image.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/vision/windows.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

struct SwinConfig {
  explicit SwinConfig(const Config& config)
      : image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 4)),
        num_channels(config.get_int("num_channels", 3)),
        embed_dim(positive(config, "embed_dim", 96)),
        window_size(positive(config, "window_size", 7)),
        encoder_stride(positive(config, "encoder_stride", 32)),
        num_labels(number_of_labels(config)),
        depths(config.get_ints("depths", {2, 2, 6, 2})),
        num_heads(config.get_ints("num_heads", {3, 6, 12, 24})),
        mlp_ratio(config.get_float("mlp_ratio", 4)),
        hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0)),
        attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0)),
        drop_path_rate(config.get_float("drop_path_rate", 0.1)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "gelu")),
        problem_type(config.get_string("problem_type", "")),
        qkv_bias(config.get_bool("qkv_bias", true)),
        use_absolute_embeddings(config.get_bool("use_absolute_embeddings", false)) {
    if (depths.empty() || depths.size() > 16 || num_heads.size() < depths.size())
      fail("{}: depths and num_heads: expected one number each for every stage", config.where());
    for (size_t i = 0; i < depths.size(); ++i)
      if (num_heads[i] < 1 || (embed_dim << i) % num_heads[i] != 0)
        fail("{}: the width {} of stage {} is not divisible by its num_heads {}", config.where(), embed_dim << i, i + 1,
             num_heads[i]);
  }
  Extents image_size, patch_size;
  int64_t num_channels, embed_dim, window_size, encoder_stride, num_labels;
  std::vector<int64_t> depths, num_heads;
  double mlp_ratio, hidden_dropout_prob, attention_probs_dropout_prob, drop_path_rate, layer_norm_eps,
      initializer_range;
  std::string hidden_act, problem_type;
  bool qkv_bias, use_absolute_embeddings;

  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }
  int64_t width() const { return embed_dim << (depths.size() - 1); }  // of the last stage
};

// Turns axis round by `shift` places towards its begin; what falls off comes in at the end.
Tensor rolled(const Tensor& x, int64_t axis, int64_t shift) {
  const int64_t extent = x.dim(axis), first = ((shift % extent) + extent) % extent;
  if (first == 0) return x;
  return concatenate({slice(x, axis, first, extent), slice(x, axis, 0, first)}, axis);
}

class SwinAttention {
 public:
  SwinAttention(const Scope& scope, const SwinConfig& c, int64_t width, int64_t heads)
      : path_((scope / "self").path()),
        heads_(heads),
        window_(c.window_size),
        query_(scope / "self" / "query", width, width, c.new_weights(c.qkv_bias)),
        key_(scope / "self" / "key", width, width, c.new_weights(c.qkv_bias)),
        value_(scope / "self" / "value", width, width, c.new_weights(c.qkv_bias)),
        relative_position_bias_table_((scope / "self")
                                          .parameter("relative_position_bias_table",
                                                     {(2 * window_ - 1) * (2 * window_ - 1), heads}, Initial::zeros())),
        output_(scope / "output" / "dense", width, width, c.new_weights()),
        dropout_(c.attention_probs_dropout_prob) {
    (scope / "self").derived("relative_position_index");  // older checkpoints hold what follows from the window
  }

  // windows [B W, M M, C], mask [B W, 1, M M, M M] or empty
  Tensor operator()(const Tensor& windows, const Tensor& mask, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      Tensor bias = relative_position_bias();
      if (mask.defined()) bias = bias + mask;
      attended = multi_head_attention(query_(windows, context), key_(windows, context), value_(windows, context),
                                      heads_, bias, dropout_, context);
    }
    return output_(attended, context);
  }

 private:
  Tensor relative_position_bias() const {  // [1, H, M M, M M]
    const int64_t M = window_;
    std::vector<int64_t> index;  // of the distance between two places
    for (int64_t from = 0; from < M * M; ++from)
      for (int64_t to = 0; to < M * M; ++to)
        index.push_back((from / M - to / M + M - 1) * (2 * M - 1) + from % M - to % M + M - 1);
    const Tensor bias = gather(relative_position_bias_table_->value, Tensor::from(index, {M * M, M * M}), 0);
    return unsqueeze(permute(bias, {2, 0, 1}), 0);
  }

  std::string path_;
  int64_t heads_, window_;
  Linear query_, key_, value_;
  std::shared_ptr<Parameter> relative_position_bias_table_;
  Linear output_;
  Dropout dropout_;
};

class SwinLayer {
 public:
  SwinLayer(const Scope& scope, const SwinConfig& c, int64_t width, int64_t heads, double drop_path, bool shifted)
      : activation_(c.hidden_act),
        window_(c.window_size),
        shift_(shifted ? c.window_size / 2 : 0),
        layernorm_before_(scope / "layernorm_before", width, c.layer_norm_eps),
        attention_(scope / "attention", c, width, heads),
        layernorm_after_(scope / "layernorm_after", width, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", width,
                      static_cast<int64_t>(c.mlp_ratio * static_cast<double>(width)), c.new_weights()),
        output_(scope / "output" / "dense", static_cast<int64_t>(c.mlp_ratio * static_cast<double>(width)), width,
                c.new_weights()),
        dropout_(c.hidden_dropout_prob),
        drop_path_(drop_path) {}

  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {  // [B, L, C] -> [B, L, C]
    const int64_t B = x.dim(0), C = x.dim(2), M = window_;
    if (std::min(grid[0], grid[1]) < M)
      fail("a grid of {}x{} patches is smaller than the window of {} (window_size): use larger images", grid[0],
           grid[1], M);
    // Where one window is all there is, nothing is shifted.
    const int64_t shift = std::min(grid[0], grid[1]) <= M ? 0 : shift_;
    const Extents padded{(grid[0] + M - 1) / M * M, (grid[1] + M - 1) / M * M};
    Tensor h = reshape(layernorm_before_(x, context), {B, grid[0], grid[1], C});
    h = pad(h, {0, 0, 0, 0}, {0, padded[0] - grid[0], padded[1] - grid[1], 0});
    h = rolled(rolled(h, 1, shift), 2, shift);
    h = dropout_(attention_(to_windows(h, M), shift > 0 ? mask_of_shift(padded, shift, B) : Tensor(), context),
                 context);
    h = from_windows(h, M, B, padded);
    h = rolled(rolled(h, 1, -shift), 2, -shift);
    h = slice(slice(h, 1, 0, grid[0]), 2, 0, grid[1]);
    const Tensor y = x + drop_path_(reshape(h, {B, grid[0] * grid[1], C}), context);
    return y + dropout_(output_(activation(activation_, intermediate_(layernorm_after_(y, context), context)), context),
                        context);
  }

 private:
  // After the shift a window may hold parts from opposite ends of the image: they do not see each other.
  Tensor mask_of_shift(Extents grid, int64_t shift, int64_t B) const {  // [B W, 1, M M, M M]
    const int64_t M = window_, W = (grid[0] / M) * (grid[1] / M);
    const auto region = [&](int64_t place, int64_t extent) {
      return (place >= extent - M) + (place >= extent - shift);
    };
    std::vector<float> regions;
    for (int64_t row = 0; row < grid[0]; ++row)
      for (int64_t column = 0; column < grid[1]; ++column)
        regions.push_back(static_cast<float>(3 * region(row, grid[0]) + region(column, grid[1])));
    const Tensor windows = reshape(to_windows(Tensor::from(regions, {1, grid[0], grid[1], 1}), M), {W, M * M});
    const Tensor same = cast(equal(unsqueeze(windows, 1), unsqueeze(windows, 2)), DType::kFloat32);
    const Tensor mask = (same - 1.0) * 100.0;  // -100 where they differ
    return reshape(broadcast_to(unsqueeze(mask, 0), {B, W, M * M, M * M}), {B * W, 1, M * M, M * M});
  }

  std::string activation_;
  int64_t window_, shift_;
  LayerNorm layernorm_before_;
  SwinAttention attention_;
  LayerNorm layernorm_after_;
  Linear intermediate_, output_;
  Dropout dropout_;
  DropPath drop_path_;
};

// Four neighbours become one place of twice the width.
class SwinPatchMerging {
 public:
  SwinPatchMerging(const Scope& scope, const SwinConfig& c, int64_t width)
      : norm_(scope / "norm", 4 * width, 1e-5),
        reduction_(scope / "reduction", 4 * width, 2 * width, c.new_weights(false)) {}
  Tensor operator()(const Tensor& x, Extents grid,
                    ForwardContext& context) const {  // [B, h w, C] -> [B, ceil(h / 2) ceil(w / 2), 2 C]
    const int64_t B = x.dim(0), C = x.dim(2), h = (grid[0] + 1) / 2, w = (grid[1] + 1) / 2;
    const Tensor even =
        pad(reshape(x, {B, grid[0], grid[1], C}), {0, 0, 0, 0}, {0, 2 * h - grid[0], 2 * w - grid[1], 0});
    const Tensor split = permute(reshape(even, {B, h, 2, w, 2, C}), {0, 1, 3, 4, 2, 5});  // column before row
    return reduction_(norm_(reshape(split, {B, h * w, 4 * C}), context), context);
  }

 private:
  LayerNorm norm_;
  Linear reduction_;
};

struct SwinOutput {
  Tensor last_hidden_state;           // [B, L, C] of the last stage
  std::vector<Tensor> hidden_states;  // patches, then behind each stage and its merging
};

class SwinBody {
 public:
  SwinBody(const Scope& scope, const SwinConfig& c, bool use_mask_token = false)
      : c_(c),
        grid_(patch_grid(c.image_size, c.patch_size)),
        patch_embeddings_(scope / "embeddings" / "patch_embeddings" / "projection", c.num_channels, c.embed_dim,
                          c.patch_size, c.initializer_range),
        embeddings_norm_(scope / "embeddings" / "norm", c.embed_dim, 1e-5),
        dropout_(c.hidden_dropout_prob),
        layernorm_(scope / "layernorm", c.width(), c.layer_norm_eps) {
    if (use_mask_token)
      mask_token_ = (scope / "embeddings").parameter("mask_token", {1, 1, c.embed_dim}, Initial::zeros());
    if (c.use_absolute_embeddings)
      position_embeddings_ =
          (scope / "embeddings")
              .parameter("position_embeddings", {1, grid_[0] * grid_[1], c.embed_dim}, Initial::zeros());
    int64_t blocks = 0, block = 0;
    for (const int64_t depth : c.depths) blocks += depth;
    for (size_t i = 0; i < c.depths.size(); ++i) {
      const Scope stage = scope / "encoder" / "layers" / static_cast<int64_t>(i);
      const int64_t width = c.embed_dim << i;
      std::vector<SwinLayer>& layers = stages_.emplace_back();
      for (int64_t k = 0; k < c.depths[i]; ++k, ++block) {
        const double place = static_cast<double>(block) / static_cast<double>(std::max<int64_t>(blocks - 1, 1));
        layers.emplace_back(stage / "blocks" / k, c, width, c.num_heads[i], c.drop_path_rate * place, k % 2 == 1);
      }
      if (i + 1 < c.depths.size()) downsample_.emplace_back(stage / "downsample", c, width);
    }
  }

  SwinOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    Extents grid;
    Tensor x = embed(inputs, context, grid);
    SwinOutput output;
    output.hidden_states.push_back(x);
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const SwinLayer& layer : stages_[i])
        x = context.gradient_checkpointing && context.training
                ? checkpoint([&](const std::vector<Tensor>& in) { return layer(in[0], grid, context); }, {x})
                : layer(x, grid, context);
      if (i < downsample_.size()) {
        x = downsample_[i](x, grid, context);
        grid = {(grid[0] + 1) / 2, (grid[1] + 1) / 2};
      }
      output.hidden_states.push_back(x);
    }
    output.last_hidden_state = layernorm_(x, context);
    return output;
  }

 private:
  Tensor embed(const NamedTensors& inputs, ForwardContext& context, Extents& grid) const {
    const Tensor& image = image_input(inputs, c_.num_channels);
    const Extents size = size_of(image), patch = c_.patch_size;
    // An image that no patches fill is padded.
    grid = {(size[0] + patch[0] - 1) / patch[0], (size[1] + patch[1] - 1) / patch[1]};
    const Tensor padded = pad(image, {0, 0, 0, 0}, {0, 0, grid[0] * patch[0] - size[0], grid[1] * patch[1] - size[1]});
    Tensor x = embeddings_norm_(patch_embeddings_(padded, context), context);
    const Tensor masked = inputs.find("bool_masked_pos");
    if (masked.defined() && !mask_token_) fail("bool_masked_pos: this model has no mask token");
    if (masked.defined()) x = with_masked_patches(x, masked, mask_token_->value);
    if (position_embeddings_) x = x + positions(size, x.dim(1), context);
    return dropout_(x, context);
  }
  Tensor positions(Extents size, int64_t patches, const ForwardContext& context) const {
    const Tensor& all = position_embeddings_->value;
    if (!context.interpolate_pos_encoding && patches != all.dim(1))
      fail("pixel_values: {} patches do not fit {} position embeddings; interpolate_pos_encoding admits other sizes",
           patches, all.dim(1));
    if (!context.interpolate_pos_encoding || (patches == all.dim(1) && size[0] == size[1])) return all;
    return interpolated_positions(all, 0, patch_grid(size, c_.patch_size), context.computing);
  }

  SwinConfig c_;
  Extents grid_;
  PatchEmbeddings patch_embeddings_;
  LayerNorm embeddings_norm_;
  std::shared_ptr<Parameter> mask_token_, position_embeddings_;
  Dropout dropout_;
  std::vector<std::vector<SwinLayer>> stages_;
  std::vector<SwinPatchMerging> downsample_;
  LayerNorm layernorm_;
};

NamedTensors with_states(NamedTensors outputs, const SwinOutput& output, const ForwardContext& context) {
  if (context.output_hidden_states) add_hidden_states(outputs, output.hidden_states);
  return outputs;
}

class SwinModel : public Model {
 public:
  SwinModel(const Config& config, const Scope& scope) : config_(config), swin_(scope, config_) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor& hidden = output.last_hidden_state;
    return with_states({{"last_hidden_state", hidden}, {"pooler_output", mean(hidden, {1})}}, output, context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
};

class SwinForImageClassification : public Model {
 public:
  SwinForImageClassification(const Config& config, const Scope& scope)
      : config_(config),
        swin_(scope / "swin", config_),
        classifier_(scope / "classifier", config_.width(), config_.num_labels, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor logits = classifier_(mean(output.last_hidden_state, {1}), context);
    return with_states(sequence_classification_outputs(logits, inputs, config_.problem_type, context), output, context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
  Linear classifier_;
};

class SwinForMaskedImageModeling : public Model {
 public:
  SwinForMaskedImageModeling(const Config& config, const Scope& scope)
      : config_(config),
        swin_(scope / "swin", config_, true),
        decoder_(scope / "decoder", config_.width(), config_.num_channels, config_.encoder_stride) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const SwinOutput output = swin_(inputs, context);
    const Tensor reconstruction = decoder_(output.last_hidden_state, context);
    return with_states(
        masked_image_outputs(reconstruction, inputs, context, config_.patch_size[0], config_.num_channels), output,
        context);
  }

 private:
  SwinConfig config_;
  SwinBody swin_;
  PixelDecoder decoder_;
};

}  // namespace

static Family swin_family() {
  return {
      .model_type = "swin",
      .base_prefix = "swin",
      .architectures = {{"SwinModel", body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                         make_model<SwinModel>},
                        {"SwinForImageClassification", image_classification_head({"classifier"}),
                         make_model<SwinForImageClassification>},
                        {"SwinForMaskedImageModeling", masked_image_head({"decoder", "swin.embeddings.mask_token"}),
                         make_model<SwinForMaskedImageModeling>}},
      .inputs = {sized_pixels()},
      .processors =
          {.tokenizer = none, .image_processor = "ViT", .positions = none, .spaced_words = false, .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "swin", .joint = ".", .separate = "decoder"}, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kSwinFamily{swin_family};

}  // namespace transom
