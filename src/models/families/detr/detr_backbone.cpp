// SPDX-License-Identifier: Apache-2.0
#include "models/families/detr/detr_backbone.h"

#include <algorithm>

#include "base/json/json.h"
#include "files/config/config.h"

namespace transom {
namespace {

constexpr const char* kPlainType = "resnet";
constexpr const char* kTimmType = "timm_backbone";

// backbone_config, or what the fields of older configurations say.
Config backbone_config(const Config& config) {
  if (config.has("backbone_config")) {
    const Config backbone = config.get_object("backbone_config");
    const std::string type = backbone.get_string("model_type", "");
    if (type != kPlainType && type != kTimmType)
      fail(ErrorKind::kUnsupported, "{}: backbones of model_type {} are not carried out; {} and {} are",
           backbone.where(), quoted(type), kPlainType, kTimmType);
    return backbone;
  }
  if (!config.get_bool("use_timm_backbone", true))
    return make_config({{"model_type", kPlainType}, {"out_features", {"stage4"}}}, config.where());
  const Config arguments = config.get_object("backbone_kwargs");
  Json backbone{{"model_type", kTimmType},
                {"backbone", config.get_string("backbone", "resnet50")},
                {"num_channels", arguments.get_int("in_chans", config.get_int("num_channels", 3))},
                {"out_indices", arguments.get_ints("out_indices", {1, 2, 3, 4})}};
  if (config.get_bool("dilation", false)) backbone["output_stride"] = arguments.get_int("output_stride", 16);
  return make_config(std::move(backbone), config.where());
}

bool is_timm(const Config& backbone) { return backbone.get_string("model_type", "") == kTimmType; }

int64_t last_stage(const Config& backbone) {
  return is_timm(backbone) ? 4 : static_cast<int64_t>(backbone.get_ints("depths", {3, 4, 6, 3}).size());
}

// As timm's configuration says it: the name of the architecture, and what is not as it is for that name.
Config timm_config(const Config& backbone) {
  Json arguments = Json::object();
  if (backbone.has("model_args")) arguments = json_of(backbone.get_object("model_args"));
  arguments["in_chans"] = backbone.get_int("num_channels", 3);
  if (backbone.has("output_stride")) arguments["output_stride"] = backbone.get_int("output_stride");
  return make_config({{"architecture", backbone.get_string("backbone", "resnet50")}, {"model_args", arguments}},
                     backbone.where());
}

}  // namespace

std::vector<int64_t> backbone_stages(const Config& backbone, std::string_view name, int64_t last) {
  std::vector<int64_t> stages;
  if (backbone.has("out_indices")) {
    stages = backbone.get_ints("out_indices", {});
  } else {
    for (const std::string& wanted : backbone.get_strings("out_features"))
      for (int64_t i = 1; i <= last; ++i)
        if (wanted == std::string(name) + std::to_string(i)) stages.push_back(i);
    if (stages.empty()) stages = {last};
  }
  for (int64_t& stage : stages) {
    if (stage < 0) stage += last + 1;
    if (stage < 0 || stage > last)
      fail("{}: out_indices: expected numbers from 0 to {}, the stages of the backbone", backbone.where(), last);
  }
  if (stages.empty() || !std::is_sorted(stages.begin(), stages.end()))
    fail("{}: out_indices: expected rising numbers of stages", backbone.where());
  return stages;
}

DetrBackbone::Body DetrBackbone::make_body(const Config& backbone, const std::vector<int64_t>& stages,
                                           const Scope& scope) {
  if (is_timm(backbone))
    return Body(std::in_place_type<Timm>, timm_config(backbone), scope, static_cast<size_t>(stages.back()));
  return Body(std::in_place_type<Plain>, backbone, scope);
}

DetrBackbone::DetrBackbone(const Config& config, const Scope& scope)
    : backbone_(backbone_config(config)),
      stages_(backbone_stages(backbone_, is_timm(backbone_) ? "layer" : "stage", last_stage(backbone_))),
      body_(make_body(backbone_, stages_, scope)) {
  for (const int64_t stage : stages_)
    widths_.push_back(std::visit([&](const auto& body) { return body.width_of_stage(stage); }, body_));
}

std::vector<Tensor> DetrBackbone::operator()(const Tensor& image, ForwardContext& context) const {
  const FeatureMaps maps = std::visit([&](const auto& body) { return body(image, context); }, body_);
  std::vector<Tensor> chosen;
  for (const int64_t stage : stages_) chosen.push_back(maps.hidden_states[static_cast<size_t>(stage)]);
  return chosen;
}

int64_t DetrBackbone::num_channels() const {
  return std::visit([](const auto& body) { return body.num_channels(); }, body_);
}

}  // namespace transom
