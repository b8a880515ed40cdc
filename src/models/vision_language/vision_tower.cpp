// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/vision_tower.h"

#include "base/error.h"
#include "base/json/json.h"
#include "models/run_inside.h"
#include "models/shared/vision_inputs.h"
#include "models/vision_language/model_part.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<int64_t> feature_layers(const Config& config) {
  constexpr const char* kField = "vision_feature_layer";
  if (!config.has(kField)) return {-2};
  if (json_of(config)[kField].is_number()) return {config.get_int(kField)};
  const std::vector<int64_t> layers = config.get_ints(kField);
  if (layers.empty()) fail("{}: {}: expected a number or a list of at least one", config.where(), kField);
  return layers;
}

}  // namespace

VisionFeatures::VisionFeatures(const Config& config) : layers(feature_layers(config)) {
  const std::string strategy = config.get_string("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full")
    fail("{}: vision_feature_select_strategy: expected \"default\" or \"full\", found {}", config.where(),
         quoted(strategy));
  without_class = strategy == "default";
}

VisionTower::VisionTower(const Config& vision_config, const VisionFeatures& features, const Scope& scope)
    : features_(features),
      width_(positive(vision_config, "hidden_size", 768) * static_cast<int64_t>(features.layers.size())),
      tower_(make_part(vision_config, "image-feature-extraction", scope)) {}

VisionTower::VisionTower(const Config& vision_config, const Scope& scope)
    : width_(positive(vision_config, "hidden_size", 768)),
      tower_(make_part(vision_config, "image-feature-extraction", scope)) {}

Tensor VisionTower::operator()(const Tensor& pixel_values, ForwardContext& context) const {
  ForwardContext seeing = context;
  seeing.output_hidden_states = !features_.layers.empty();
  seeing.cache = nullptr;
  const NamedTensors outputs = run_inside(*tower_, {{"pixel_values", pixel_values}}, seeing);
  context.dropouts = seeing.dropouts;
  if (features_.layers.empty()) return outputs.at("last_hidden_state");
  int64_t states = 0;
  while (outputs.find("hidden_states." + std::to_string(states)).defined()) ++states;
  std::vector<Tensor> chosen;
  for (const int64_t layer : features_.layers) {
    const int64_t index = layer < 0 ? layer + states : layer;
    if (index < 0 || index >= states)
      fail("config.json: vision_feature_layer: {} is none of the {} states of {}", layer, states,
           tower_->architecture());
    const Tensor& state = outputs.at("hidden_states." + std::to_string(index));
    chosen.push_back(features_.without_class ? slice(state, 1, 1, state.dim(1)) : state);
  }
  return chosen.size() == 1 ? chosen[0] : concatenate(chosen, -1);
}

}  // namespace transom
