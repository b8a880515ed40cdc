// SPDX-License-Identifier: Apache-2.0
// CLIPSeg (Lüddecke and Ecker, 2022): where in a picture is what a text, or another picture, shows? CLIP is not
// trained; a small decoder reads states of its layers. B batch, T = 1 + P patches, D hidden, E projection, R reduced.
#include <cmath>

#include "base/error.h"
#include "models/families/clip/clip_towers.h"
#include "models/nn/vision/upsampling.h"
#include "models/shared/encoder_heads.h"
#include "transom/losses.h"

namespace transom {
namespace {

constexpr CLIPOptions kClipSegTowers{.any_size = true};

struct CLIPSegConfig {
  explicit CLIPSegConfig(const Config& config)
      : vision(clip_part(config, "vision_config")),
        projection_dim(positive(config, "projection_dim", 512)),
        reduce_dim(positive(config, "reduce_dim", 64)),
        conditional_layer(config.get_int("conditional_layer", 0)),
        extract_layers(config.get_ints("extract_layers", {3, 6, 9})),
        enlarges_twice(config.get_bool("use_complex_transposed_convolution", false)),
        decoder(vision) {
    decoder.hidden_size = reduce_dim;
    decoder.num_attention_heads = positive(config, "decoder_num_attention_heads", 4);
    decoder.intermediate_size = positive(config, "decoder_intermediate_size", 2048);
    decoder.hidden_act = "relu";  // whatever decoder_hidden_act says, as in Transformers
    for (const char* unread : {"decoder_hidden_act", "decoder_attention_dropout"}) config.get_json(unread);
    if (reduce_dim % decoder.num_attention_heads != 0)
      fail("{}: decoder_num_attention_heads: {} heads do not divide reduce_dim, {}", config.where(),
           decoder.num_attention_heads, reduce_dim);
    if (vision.patch_size[0] != vision.patch_size[1] || (enlarges_twice && vision.patch_size[0] < 4))
      fail("{}: patch_size: expected one number{}, found {}x{}", config.where(), enlarges_twice ? " of 4 or more" : "",
           vision.patch_size[0], vision.patch_size[1]);
    for (const int64_t layer : extract_layers)
      if (layer < 0 || layer >= vision.num_hidden_layers)
        fail("{}: extract_layers: expected numbers from 0 to {}, found {}", config.where(),
             vision.num_hidden_layers - 1, layer);
    if (extract_layers.empty()) fail("{}: extract_layers: expected a layer or more, found none", config.where());
  }
  CLIPVisionConfig vision;
  int64_t projection_dim, reduce_dim, conditional_layer;
  std::vector<int64_t> extract_layers;
  bool enlarges_twice;
  CLIPTowerConfig decoder;
};

// Values of the patches [B, R, h, w] as pixels [B, h patch, w patch].
class CLIPSegPixels {
 public:
  CLIPSegPixels(const Scope& scope, const CLIPSegConfig& c) {
    const int64_t patch = c.vision.patch_size[0], quarter = patch / 4;
    if (!c.enlarges_twice) {
      steps_.emplace_back(scope, c.reduce_dim, 1, patch, 0.02);
      return;
    }
    mixed_.emplace_back(scope / 0, c.reduce_dim, c.reduce_dim, Axes{3, 3}, Convolution::same(3, 1, 1, true));
    steps_.emplace_back(scope / 2, c.reduce_dim, c.reduce_dim / 2, quarter, 0.02);
    steps_.emplace_back(scope / 4, c.reduce_dim / 2, 1, quarter, 0.02);
  }
  Tensor operator()(Tensor x, ForwardContext& context) const {
    for (const Convolution& convolution : mixed_) x = relu(convolution(x, context));
    for (size_t i = 0; i < steps_.size(); ++i) x = i == 0 ? steps_[i](x, context) : steps_[i](relu(x), context);
    return squeeze(x, 1);
  }

 private:
  std::vector<Convolution> mixed_;  // none or one
  std::vector<PixelEnlargement> steps_;
};

class CLIPSegDecoder {
 public:
  CLIPSegDecoder(const Scope& scope, const CLIPSegConfig& c)
      : conditional_layer_(c.conditional_layer),
        film_mul_(scope / "film_mul", c.projection_dim, c.reduce_dim),
        film_add_(scope / "film_add", c.projection_dim, c.reduce_dim),
        pixels_(scope / "transposed_convolution", c) {
    for (size_t i = 0; i < c.extract_layers.size(); ++i) {
      const auto number = static_cast<int64_t>(i);
      reduces_.emplace_back(scope / "reduces" / number, c.vision.hidden_size, c.reduce_dim);
      layers_.emplace_back(scope / "layers" / number, c.decoder, true);
    }
  }

  // States of the extracted layers, each [B, T, D], and what is looked for [B, E] -> [B, H, W].
  Tensor operator()(const std::vector<Tensor>& states, const Tensor& wanted, ForwardContext& context) const {
    Tensor x;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Tensor reduced = reduces_[i](states[states.size() - 1 - i], context);
      x = x.defined() ? reduced + x : reduced;
      if (static_cast<int64_t>(i) == conditional_layer_)
        x = unsqueeze(film_mul_(wanted, context), 1) * x + unsqueeze(film_add_(wanted, context), 1);
      x = layers_[i](x, Tensor(), context);
    }
    const int64_t B = x.dim(0), P = x.dim(1) - 1, R = x.dim(2);
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(P)));
    if (side * side != P) fail("pixel_values: expected square pictures, found {} patches", P);
    return pixels_(reshape(permute(slice(x, 1, 1, 1 + P), {0, 2, 1}), {B, R, side, side}), context);
  }

 private:
  int64_t conditional_layer_;
  Linear film_mul_, film_add_;
  CLIPSegPixels pixels_;
  std::vector<Linear> reduces_;
  std::vector<CLIPEncoderLayer> layers_;
};

std::vector<std::string> clipseg_input_names() {
  std::vector<std::string> names = clip_text_names();
  names.push_back("pixel_values");
  return names;
}

class CLIPSegModel : public Model {
 public:
  CLIPSegModel(const Config& config, const Scope& scope) : towers_(config, scope, kClipSegTowers) {
    for (const char* of_decoder :
         {"extract_layers", "reduce_dim", "conditional_layer", "decoder_num_attention_heads", "decoder_hidden_act",
          "decoder_attention_dropout", "decoder_intermediate_size", "use_complex_transposed_convolution"})
      config.get_json(of_decoder);
  }

 protected:
  std::vector<std::string> input_names() const override { return clipseg_input_names(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return towers_.outputs(inputs, context);
  }

 private:
  CLIPTowers towers_;
};

class CLIPSegForImageSegmentation : public Model {
 public:
  CLIPSegForImageSegmentation(const Config& config, const Scope& scope)
      : c_(config), clip_(config, scope / "clip", kClipSegTowers), decoder_(scope / "decoder", c_) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = clipseg_input_names();
    names.insert(names.end(), {"conditional_pixel_values", "conditional_embeddings", "labels"});
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const bool asked = context.output_hidden_states;
    context.output_hidden_states = true;
    const CLIPTowerOutput image = clip_.vision_model(inputs, context);
    context.output_hidden_states = asked;
    const Tensor pooled = clip_.visual_projection(image.pooler_output, context).detach();
    std::vector<Tensor> states;  // behind the embeddings
    for (const int64_t layer : c_.extract_layers)
      states.push_back(image.hidden_states[static_cast<size_t>(layer) + 1].detach());
    const Tensor wanted = wanted_of(inputs, pooled.dim(0), context);
    const Tensor logits = decoder_(states, wanted, context);
    Tensor loss;
    if (const Tensor labels = inputs.find("labels"); labels.defined()) {
      if (labels.shape() != logits.shape())
        fail("labels: expected {}, found {}", to_string(logits.shape()), to_string(labels.shape()));
      loss = binary_cross_entropy(logits, cast(labels, DType::kFloat32));
    }
    NamedTensors outputs =
        with_loss(loss, {{"logits", logits}, {"conditional_embeddings", wanted}, {"pooled_output", pooled}});
    if (asked) add_hidden_states(outputs, image.hidden_states);
    return outputs;
  }

 private:
  // What is looked for, [B, E]: of a text or a picture for each picture, or as it is given.
  Tensor wanted_of(const NamedTensors& inputs, int64_t pictures, ForwardContext& context) const {
    Tensor wanted = inputs.find("conditional_embeddings");
    if (!wanted.defined() && inputs.find("input_ids").defined()) {
      const CLIPTowerOutput text = clip_.text_model(clip_text_inputs(inputs), context);
      wanted = clip_.text_projection(text.pooler_output, context).detach();
    } else if (!wanted.defined() && inputs.find("conditional_pixel_values").defined()) {
      const CLIPTowerOutput image =
          clip_.vision_model({{"pixel_values", inputs.find("conditional_pixel_values")}}, context);
      wanted = clip_.visual_projection(image.pooler_output, context).detach();
    }
    if (!wanted.defined())
      fail("expected input_ids, conditional_pixel_values or conditional_embeddings: what is looked for");
    if (wanted.shape() != Shape{pictures, c_.projection_dim})
      fail("expected something to look for in each picture, {}, found {}", to_string({pictures, c_.projection_dim}),
           to_string(wanted.shape()));
    return wanted;
  }

  CLIPSegConfig c_;
  CLIPTowers clip_;
  CLIPSegDecoder decoder_;
};

}  // namespace

static Family clipseg_family() {
  return {.model_type = "clipseg",
          .base_prefix = "clip",
          .architectures = {{"CLIPSegModel", clip_head(), make_model<CLIPSegModel>},
                            {"CLIPSegForImageSegmentation",
                             {.task = HeadTask::kSegmentation,
                              .pipelines = none,
                              .labels = HeadLabels::kPixelClasses,
                              .modules = {"decoder"},
                              .vocabulary = none,
                              .outputs = {"logits", "conditional_embeddings", "pooled_output"}},
                             make_model<CLIPSegForImageSegmentation>}},
          .inputs = clip_record_inputs(),
          .processors = {.tokenizer = "CLIP",
                         .image_processor = "ViT",
                         .positions = PositionLimit{{"text_config.max_position_embeddings"}},
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

const RegisterFamilies kClipSegFamily{clipseg_family};

}  // namespace transom
