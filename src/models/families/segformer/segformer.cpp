// SPDX-License-Identifier: Apache-2.0
// SegFormer (Xie et al., 2021): stages of attention whose keys are fewer than the places, without position embeddings,
// and a head that joins the maps of all stages. B batch, C channels, S = h w places, D hidden.
#include <optional>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/losses/pixel_losses.h"
#include "models/nn/vision/convolution.h"
#include "models/nn/vision/upsampling.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

struct SegformerConfig {
  explicit SegformerConfig(const Config& config)
      : stages(positive(config, "num_encoder_blocks", 4)),
        num_channels(positive(config, "num_channels", 3)),
        num_labels(number_of_labels(config)),
        decoder_hidden_size(positive(config, "decoder_hidden_size", 256)),
        ignore_index(config.get_int("semantic_loss_ignore_index", 255)),
        depths(each(config, "depths", {2, 2, 2, 2})),
        sr_ratios(each(config, "sr_ratios", {8, 4, 2, 1})),
        hidden_sizes(each(config, "hidden_sizes", {32, 64, 160, 256})),
        patch_sizes(each(config, "patch_sizes", {7, 3, 3, 3})),
        strides(each(config, "strides", {4, 2, 2, 2})),
        heads(each(config, "num_attention_heads", {1, 2, 5, 8})),
        mlp_ratios(each(config, "mlp_ratios", {4, 4, 4, 4})),
        hidden_act(config.get_string("hidden_act", "gelu")),
        problem_type(config.get_string("problem_type", "")),
        hidden_dropout(config.get_float("hidden_dropout_prob", 0)),
        attention_dropout(config.get_float("attention_probs_dropout_prob", 0)),
        classifier_dropout(config.get_float("classifier_dropout_prob", 0.1)),
        drop_path_rate(config.get_float("drop_path_rate", 0.1)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        reshape_last_stage(config.get_bool("reshape_last_stage", true)) {
    config.get_json("layer_norm_eps");  // has no effect in Transformers: see kSegformerEpsilon
    for (size_t i = 0; i < heads.size(); ++i)
      if (hidden_sizes[i] % heads[i] != 0)
        fail("{}: {} heads do not divide the hidden size {} of stage {}", config.where(), heads[i], hidden_sizes[i], i);
  }

  // One number above 0 for each stage.
  std::vector<int64_t> each(const Config& config, const char* field, std::vector<int64_t> otherwise) const {
    std::vector<int64_t> values = config.get_ints(field, std::move(otherwise));
    if (static_cast<int64_t>(values.size()) < stages)
      fail("{}: {}: expected a number for each of {} stages, found {}", config.where(), field, stages, values.size());
    values.resize(static_cast<size_t>(stages));
    for (const int64_t value : values)
      if (value < 1) fail("{}: {}: expected numbers above 0, found {}", config.where(), field, value);
    return values;
  }
  int64_t layers() const {
    int64_t count = 0;
    for (const int64_t depth : depths) count += depth;
    return count;
  }
  Linear::Options linear(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }

  int64_t stages, num_channels, num_labels, decoder_hidden_size, ignore_index;
  std::vector<int64_t> depths, sr_ratios, hidden_sizes, patch_sizes, strides, heads, mlp_ratios;
  std::string hidden_act, problem_type;
  double hidden_dropout, attention_dropout, classifier_dropout, drop_path_rate, initializer_range;
  bool reshape_last_stage;
};

constexpr double kSegformerEpsilon = 1e-5;  // of torch: layer_norm_eps of the configuration is not read

Tensor as_sequence(const Tensor& map) { return permute(flatten(map, 2, 3), {0, 2, 1}); }
Tensor as_map(const Tensor& sequence, Extents grid) {
  return reshape(permute(sequence, {0, 2, 1}), {sequence.dim(0), sequence.dim(2), grid[0], grid[1]});
}

class SegformerAttention {
 public:
  SegformerAttention(const Scope& scope, const SegformerConfig& c, size_t stage)
      : path_(scope.path()),
        heads_(c.heads[stage]),
        query_(scope / "self" / "query", c.hidden_sizes[stage], c.hidden_sizes[stage], c.linear()),
        key_(scope / "self" / "key", c.hidden_sizes[stage], c.hidden_sizes[stage], c.linear()),
        value_(scope / "self" / "value", c.hidden_sizes[stage], c.hidden_sizes[stage], c.linear()),
        output_(scope / "output" / "dense", c.hidden_sizes[stage], c.hidden_sizes[stage], c.linear()),
        dropout_(c.attention_dropout) {
    const int64_t ratio = c.sr_ratios[stage], width = c.hidden_sizes[stage];
    if (ratio == 1) return;
    sr_.emplace(scope / "self" / "sr", width, width, Axes{ratio, ratio},
                Convolution::Options{.strides = {ratio, ratio}, .deviation = c.initializer_range});
    layer_norm_.emplace(scope / "self" / "layer_norm", width, kSegformerEpsilon);
  }
  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {
    const Tensor seen = sr_ ? (*layer_norm_)(as_sequence((*sr_)(as_map(x, grid), context)), context) : x;
    Tensor attended;
    {
      const ModuleScope module(path_);
      attended = multi_head_attention(query_(x, context), key_(seen, context), value_(seen, context), heads_, Tensor(),
                                      dropout_, context);
    }
    return output_(attended, context);
  }

 private:
  std::string path_;
  int64_t heads_;
  Linear query_, key_, value_, output_;
  Dropout dropout_;
  std::optional<Convolution> sr_;
  std::optional<LayerNorm> layer_norm_;
};

// Feed-forward layers with a 3 x 3 window between them, which tells where the borders are.
class MixFeedForward {
 public:
  MixFeedForward(const Scope& scope, const SegformerConfig& c, size_t stage)
      : hidden_act_(c.hidden_act),
        dense1_(scope / "dense1", c.hidden_sizes[stage], inner(c, stage), c.linear()),
        dwconv_(scope / "dwconv" / "dwconv", inner(c, stage), inner(c, stage), {3, 3}, window(c, inner(c, stage))),
        dense2_(scope / "dense2", inner(c, stage), c.hidden_sizes[stage], c.linear()),
        dropout_(c.hidden_dropout) {}
  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {
    const Tensor mixed = as_sequence(dwconv_(as_map(dense1_(x, context), grid), context));
    return dropout_(dense2_(dropout_(activation(hidden_act_, mixed), context), context), context);
  }

 private:
  static int64_t inner(const SegformerConfig& c, size_t stage) { return c.hidden_sizes[stage] * c.mlp_ratios[stage]; }
  static Convolution::Options window(const SegformerConfig& c, int64_t width) {
    Convolution::Options options = Convolution::same(3, 1, width, true);
    options.deviation = c.initializer_range;
    return options;
  }
  std::string hidden_act_;
  Linear dense1_;
  Convolution dwconv_;
  Linear dense2_;
  Dropout dropout_;
};

class SegformerLayer {
 public:
  SegformerLayer(const Scope& scope, const SegformerConfig& c, size_t stage, double drop_path)
      : layer_norm_1_(scope / "layer_norm_1", c.hidden_sizes[stage], kSegformerEpsilon),
        attention_(scope / "attention", c, stage),
        layer_norm_2_(scope / "layer_norm_2", c.hidden_sizes[stage], kSegformerEpsilon),
        mlp_(scope / "mlp", c, stage),
        dropout_(c.hidden_dropout),
        drop_path_(drop_path) {}
  Tensor operator()(const Tensor& x, Extents grid, ForwardContext& context) const {  // [B, S, D] -> [B, S, D]
    const Tensor attended = dropout_(attention_(layer_norm_1_(x, context), grid, context), context);
    const Tensor h = drop_path_(attended, context) + x;
    return drop_path_(mlp_(layer_norm_2_(h, context), grid, context), context) + h;
  }

 private:
  LayerNorm layer_norm_1_;
  SegformerAttention attention_;
  LayerNorm layer_norm_2_;
  MixFeedForward mlp_;
  Dropout dropout_;
  DropPath drop_path_;
};

// Patches that overlap, layers over them, and a norm: a map of fewer places and more channels.
class SegformerStage {
 public:
  SegformerStage(const Scope& scope, const SegformerConfig& c, size_t stage, int64_t layers_before)
      : proj_(scope / "patch_embeddings" / number(stage) / "proj", channels(c, stage), c.hidden_sizes[stage],
              {c.patch_sizes[stage], c.patch_sizes[stage]}, window(c, stage)),
        patch_norm_(scope / "patch_embeddings" / number(stage) / "layer_norm", c.hidden_sizes[stage],
                    kSegformerEpsilon),
        layer_norm_(scope / "layer_norm" / number(stage), c.hidden_sizes[stage], kSegformerEpsilon) {
    const auto last = static_cast<double>(std::max<int64_t>(c.layers() - 1, 1));
    for (int64_t i = 0; i < c.depths[stage]; ++i)
      layers_.emplace_back(scope / "block" / number(stage) / i, c, stage,
                           c.drop_path_rate * static_cast<double>(layers_before + i) / last);
  }
  Tensor operator()(const Tensor& map, ForwardContext& context) const {  // [B, C, H, W] -> [B, D, h, w]
    const Tensor patches = proj_(map, context);
    const Extents grid = size_of(patches);
    Tensor x = patch_norm_(as_sequence(patches), context);
    for (const SegformerLayer& layer : layers_) x = layer(x, grid, context);
    return as_map(layer_norm_(x, context), grid);
  }

 private:
  static int64_t number(size_t stage) { return static_cast<int64_t>(stage); }
  static int64_t channels(const SegformerConfig& c, size_t stage) {
    return stage == 0 ? c.num_channels : c.hidden_sizes[stage - 1];
  }
  static Convolution::Options window(const SegformerConfig& c, size_t stage) {
    const Axes padding(2, c.patch_sizes[stage] / 2);
    return {.strides = {c.strides[stage], c.strides[stage]},
            .low = padding,
            .high = padding,
            .deviation = c.initializer_range};
  }
  Convolution proj_;
  LayerNorm patch_norm_;
  std::vector<SegformerLayer> layers_;
  LayerNorm layer_norm_;
};

class SegformerBody {
 public:
  SegformerBody(const Scope& scope, const SegformerConfig& c) : c_(c) {
    int64_t layers = 0;
    for (size_t i = 0; i < c.depths.size(); ++i) {
      stages_.emplace_back(scope / "encoder", c, i, layers);
      layers += c.depths[i];
    }
  }
  // The maps of all stages.
  std::vector<Tensor> operator()(const NamedTensors& inputs, ForwardContext& context) const {
    std::vector<Tensor> maps;
    Tensor x = image_input(inputs, c_.num_channels);
    for (const SegformerStage& stage : stages_) maps.push_back(x = stage(x, context));
    return maps;
  }

 private:
  SegformerConfig c_;
  std::vector<SegformerStage> stages_;
};

NamedTensors with_stages(NamedTensors outputs, const std::vector<Tensor>& maps, const ForwardContext& context) {
  if (context.output_hidden_states) add_hidden_states(outputs, maps);
  return outputs;
}

class SegformerModel : public Model {
 public:
  SegformerModel(const Config& config, const Scope& scope) : c_(config), body_(scope, c_) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::vector<Tensor> maps = body_(inputs, context);
    const Tensor last = c_.reshape_last_stage ? maps.back() : as_sequence(maps.back());
    return with_stages({{"last_hidden_state", last}}, maps, context);
  }

 private:
  SegformerConfig c_;
  SegformerBody body_;
};

class SegformerForImageClassification : public Model {
 public:
  SegformerForImageClassification(const Config& config, const Scope& scope)
      : c_(config),
        segformer_(scope / "segformer", c_),
        classifier_(scope / "classifier", c_.hidden_sizes.back(), c_.num_labels, c_.linear()) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::vector<Tensor> maps = segformer_(inputs, context);
    const Tensor logits = classifier_(global_mean(maps.back()), context);
    return with_stages(sequence_classification_outputs(logits, inputs, c_.problem_type, context), maps, context);
  }

 private:
  SegformerConfig c_;
  SegformerBody segformer_;
  Linear classifier_;
};

class SegformerDecodeHead {
 public:
  SegformerDecodeHead(const Scope& scope, const SegformerConfig& c)
      : linear_fuse_(scope / "linear_fuse", c.decoder_hidden_size * c.stages, c.decoder_hidden_size, {1, 1},
                     {.bias = false, .deviation = c.initializer_range}),
        batch_norm_(scope / "batch_norm", c.decoder_hidden_size),
        classifier_(scope / "classifier", c.decoder_hidden_size, c.num_labels, {1, 1},
                    {.deviation = c.initializer_range}),
        dropout_(c.classifier_dropout) {
    for (size_t i = 0; i < c.hidden_sizes.size(); ++i)
      linear_c_.emplace_back(scope / "linear_c" / static_cast<int64_t>(i) / "proj", c.hidden_sizes[i],
                             c.decoder_hidden_size, c.linear());
  }
  // -> [B, classes, h, w] of the finest map, which stands first
  Tensor operator()(const std::vector<Tensor>& maps, ForwardContext& context) const {
    const Extents finest = size_of(maps[0]);
    std::vector<Tensor> same;
    for (size_t i = maps.size(); i-- > 0;) {
      const Tensor map = as_map(linear_c_[i](as_sequence(maps[i]), context), size_of(maps[i]));
      same.push_back(i == 0 ? map : resize_bilinear(map, finest[0], finest[1], false, context.computing));
    }
    const Tensor fused = relu(batch_norm_(linear_fuse_(concatenate(same, 1), context), context));
    return classifier_(dropout_(fused, context), context);
  }

 private:
  std::vector<Linear> linear_c_;
  Convolution linear_fuse_;
  BatchNorm batch_norm_;
  Convolution classifier_;
  Dropout dropout_;
};

class SegformerForSemanticSegmentation : public Model {
 public:
  SegformerForSemanticSegmentation(const Config& config, const Scope& scope)
      : c_(config), segformer_(scope / "segformer", c_), decode_head_(scope / "decode_head", c_) {
    refuse_unless(config, "reshape_last_stage", "true");
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const std::vector<Tensor> maps = segformer_(inputs, context);
    const Tensor logits = decode_head_(maps, context), labels = inputs.find("labels");
    const Tensor loss = labels.defined() ? pixel_loss(logits, labels, c_.ignore_index, context) : Tensor();
    return with_stages(with_loss(loss, {{"logits", logits}}), maps, context);
  }

 private:
  SegformerConfig c_;
  SegformerBody segformer_;
  SegformerDecodeHead decode_head_;
};

}  // namespace

static Family segformer_family() {
  return {.model_type = "segformer",
          .base_prefix = "segformer",
          .architectures = {{"SegformerModel", body_head({"image-feature-extraction"}), make_model<SegformerModel>},
                            {"SegformerForImageClassification", image_classification_head({"classifier"}),
                             make_model<SegformerForImageClassification>},
                            {"SegformerForSemanticSegmentation", semantic_segmentation_head({"decode_head"}),
                             make_model<SegformerForSemanticSegmentation>}},
          .inputs = {pixels_of_any_size()},
          .processors = {.tokenizer = none,
                         .image_processor = "Segformer",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kSegformerFamily{segformer_family};

}  // namespace transom
