// SPDX-License-Identifier: Apache-2.0
#include "models/families/rt_detr/rt_detr_backbone.h"

#include "base/json/json.h"
#include "files/config/config.h"
#include "models/families/detr/detr_backbone.h"

namespace transom {
namespace {

constexpr const char* kDeepType = "rt_detr_resnet";

Config deep_backbone_config(const Config& config) {
  if (!config.has("backbone_config"))
    return make_config({{"model_type", kDeepType}, {"out_indices", {2, 3, 4}}}, config.where());
  const Config backbone = config.get_object("backbone_config");
  if (const std::string type = backbone.get_string("model_type", ""); type != kDeepType)
    fail(ErrorKind::kUnsupported, "{}: backbones of model_type {} are not carried out; {} is", backbone.where(),
         quoted(type), kDeepType);
  return backbone;
}

}  // namespace

RTDetrBackbone::Body RTDetrBackbone::make_body(const Config& config, const Config& backbone, const Scope& scope) {
  if (config.get_bool("freeze_backbone_batch_norms", true))
    return Body(std::in_place_type<Frozen>, backbone, scope, true);
  return Body(std::in_place_type<Trained>, backbone, scope, true);
}

RTDetrBackbone::RTDetrBackbone(const Config& config, const Scope& scope)
    : backbone_(deep_backbone_config(config)),
      body_(make_body(config, backbone_, scope)),
      stages_(backbone_stages(backbone_, "stage",
                              std::visit([](const auto& body) { return body.number_of_stages(); }, body_))) {
  for (const int64_t stage : stages_)
    widths_.push_back(std::visit([&](const auto& body) { return body.width_of_stage(stage); }, body_));
}

std::vector<Tensor> RTDetrBackbone::operator()(const Tensor& image, ForwardContext& context) const {
  const FeatureMaps maps = std::visit([&](const auto& body) { return body(image, context); }, body_);
  std::vector<Tensor> chosen;
  for (const int64_t stage : stages_) chosen.push_back(maps.hidden_states[static_cast<size_t>(stage)]);
  return chosen;
}

int64_t RTDetrBackbone::num_channels() const {
  return std::visit([](const auto& body) { return body.num_channels(); }, body_);
}

}  // namespace transom
