// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al., 2022) and ConvNeXt V2 (Woo et al., 2023) as Transformers has them.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/families/convnext/convnext_body.h"
#include "models/family.h"
#include "models/shared/image_classifier.h"

namespace transom {
namespace {

constexpr ConvNextNames kConvNextNames{.stages = "encoder.stages",
                                       .downsampling = "downsampling_layer",
                                       .blocks = "layers",
                                       .depthwise = "dwconv",
                                       .norm = "layernorm",
                                       .widening = "pwconv1",
                                       .narrowing = "pwconv2",
                                       .response = "grn",
                                       .scale = "layer_scale_parameter"};

// `responds`: the second version, which has the response norm in place of scales of the residual branches.
ConvNextDesign convnext_design(const Config& config, bool responds) {
  const Extents patch = config.get_pair("patch_size", 4);
  ConvNextDesign d{.names = kConvNextNames,
                   .num_channels = config.get_int("num_channels", 3),
                   .stem_norm = "embeddings.layernorm",
                   .hidden_sizes = config.get_ints("hidden_sizes", {96, 192, 384, 768}),
                   .depths = config.get_ints("depths", {3, 3, 9, 3}),
                   .hidden_act = config.get_string("hidden_act", "gelu"),
                   .drop_path_rate = config.get_float("drop_path_rate", 0),
                   .deviation = config.get_float("initializer_range", 0.02),
                   .num_blocks = 0,
                   .responds = responds,
                   .response_axes = 4};
  const int64_t stages = config.get_int("num_stages", static_cast<int64_t>(d.depths.size()));
  if (stages < 1 || stages > static_cast<int64_t>(std::min(d.depths.size(), d.hidden_sizes.size())))
    fail("{}: num_stages: expected a number from 1 to those of depths and hidden_sizes ({}, {}), found {}",
         config.where(), d.depths.size(), d.hidden_sizes.size(), stages);
  for (const int64_t depth : d.depths) d.num_blocks += depth;
  d.depths.resize(static_cast<size_t>(stages));
  d.windows.assign(d.depths.size(), 7);
  if (const double scale = responds ? 0 : config.get_float("layer_scale_init_value", 1e-6); scale > 0)
    d.layer_scale = scale;
  d.stem.push_back(
      {"embeddings.patch_embeddings", d.hidden_sizes[0], {patch[0], patch[1]}, {.strides = {patch[0], patch[1]}}});
  return d;
}

template <bool responds>
class ConvNextBody {
 public:
  ConvNextBody(const Config& config, const Scope& scope)
      : design_(convnext_design(config, responds)),
        trunk_(scope, design_),
        layernorm_(scope / "layernorm", width(), config.get_float("layer_norm_eps", 1e-12)) {}
  FeatureMaps operator()(const Tensor& image, ForwardContext& context) const {
    const std::vector<Tensor> states = trunk_(image, context);
    return {states.back(), layernorm_(global_mean(states.back()), context), states};
  }
  int64_t num_channels() const { return design_.num_channels; }
  int64_t width() const { return design_.hidden_sizes.back(); }
  double deviation() const { return design_.deviation; }

 private:
  ConvNextDesign design_;
  ConvNextTrunk trunk_;
  LayerNorm layernorm_;
};

template <bool responds>
class ConvNextForImageClassification : public Model {
 public:
  ConvNextForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")),
        convnext_(config, scope / (responds ? "convnextv2" : "convnext")),
        classifier_(scope / "classifier", convnext_.width(), number_of_labels(config),
                    {.deviation = convnext_.deviation()}) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = convnext_(image_input(inputs, convnext_.num_channels()), context);
    return with_states(
        sequence_classification_outputs(classifier_(maps.pooled, context), inputs, problem_type_, context), maps,
        context);
  }

 private:
  std::string problem_type_;
  ConvNextBody<responds> convnext_;
  Linear classifier_;
};

}  // namespace

// `prefix` of the classes.
template <bool responds>
static Family convnext_record(const char* model_type, const std::string& prefix, std::optional<KerasNames> keras) {
  return {.model_type = model_type,
          .base_prefix = model_type,
          .architectures = {{prefix + "Model",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<ImageFeatureModel<ConvNextBody<responds>, false>>},
                            {prefix + "ForImageClassification", image_classification_head({"classifier"}),
                             make_model<ConvNextForImageClassification<responds>>}},
          .inputs = {pixels_of_any_size()},
          .processors = {.tokenizer = none,
                         .image_processor = "ConvNext",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = std::move(keras), .flax = none},
          .planning = {.fused_attention = false}};
}

static Family convnext_family() {
  return convnext_record<false>("convnext", "ConvNext", KerasNames{.body = "convnext", .joint = "."});
}

static Family convnextv2_family() { return convnext_record<true>("convnextv2", "ConvNextV2", std::nullopt); }

const RegisterFamilies kConvnextFamilies{convnext_family, convnextv2_family};

}  // namespace transom
