// SPDX-License-Identifier: Apache-2.0
#include "models/families/timm_wrapper/timm_arguments.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "files/config/known_keys.h"
#include "models/nn/vision/convolution.h"
#include "models/shared/vision_inputs.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostTimmChannels = 1 << 16, kMostTimmClasses = 1 << 20;

}  // namespace

TimmArguments::TimmArguments(const Config& config)
    : where(config.where()),
      name(config.get_string("architecture", "resnet50")),
      given(config.get_object("model_args")),
      num_classes(config.get_int("num_classes", 1000)),
      in_chans(positive(given, "in_chans", 3, kMostTimmChannels)),
      drop_rate(given.get_float("drop_rate", 0)),
      drop_path_rate(given.get_float("drop_path_rate", 0)) {
  name = name.substr(0, name.find('.'));
  if (config.has("label_names") && !config.has("num_classes"))
    num_classes = static_cast<int64_t>(config.get_strings("label_names").size());
  const int64_t classes = given.get_int("num_classes", num_classes);
  if (!config.has("num_classes")) num_classes = classes;
  if (num_classes < 0 || num_classes > kMostTimmClasses)
    fail("{}: num_classes: expected a number from 0 to {}, found {}", where, kMostTimmClasses, num_classes);
  // Without effect, or said again by model_args.
  for (const char* said : {"num_features", "label_descriptions", "global_pool"}) config.get_json(said);
  for (const Config* each : {static_cast<const Config*>(&given), &config})
    if (!pooling_ && each->has("global_pool")) pooling_ = each->get_string("global_pool");
}

std::string TimmArguments::named_pooling(const std::string& otherwise) const { return pooling_.value_or(otherwise); }

std::string TimmArguments::pooling(const std::string& otherwise) const {
  std::string pooling = named_pooling(otherwise);
  if (pooling.starts_with("fast")) pooling = pooling == "fast" ? "avg" : pooling.substr(4);
  static const std::vector<std::string> pools = {"avg", "max", "avgmax", "catavgmax"};
  if (std::find(pools.begin(), pools.end(), pooling) == pools.end())
    fail(ErrorKind::kUnsupported, "{}: global_pool = {} is not carried out; {} are", given.where(), quoted(pooling),
         fmt::join(pools, ", "));
  return pooling;
}

std::string TimmArguments::activation(const std::string& otherwise) const {
  const std::string name = given.get_string("act_layer", otherwise);
  // Two that timm calls otherwise than Transformers.
  if (name == "hard_swish") return "hardswish";
  return name == "gelu_tanh" ? "gelu_pytorch_tanh" : name;
}

void TimmArguments::expect_all_read() const {
  // Without effect on what is read.
  static const std::vector<std::string> no_effect = {"zero_init_last", "pretrained", "scriptable", "exportable",
                                                     "weight_init"};
  for (const std::string& key : given.keys())
    // has() counts as reading, so it comes last.
    if (!was_read(given, key) && std::find(no_effect.begin(), no_effect.end(), key) == no_effect.end() &&
        given.has(key))
      fail("{}: {} is not carried out for {}", given.where(), quoted(key), name);
}

Tensor timm_pooled(const Tensor& x, const std::string& pooling) {
  if (pooling == "avg") return global_mean(x);
  const Tensor most = reduce_max(x, {2, 3});
  if (pooling == "max") return most;
  const Tensor mean = global_mean(x);
  return pooling == "avgmax" ? (mean + most) * 0.5 : concatenate({mean, most}, 1);
}

}  // namespace transom
