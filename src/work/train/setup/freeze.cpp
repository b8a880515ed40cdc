// SPDX-License-Identifier: Apache-2.0
#include "work/train/setup/freeze.h"

namespace transom {

void freeze(Model& model, std::string_view prefix) {
  for (const auto& parameter : model.parameters())
    if (parameter->name.starts_with(prefix)) parameter->value.set_requires_grad(false);
}

void freeze_feature_encoder(Model& model) {
  for (const auto& parameter : model.parameters())
    if (parameter->name.find("feature_extractor.conv_layers.") != std::string::npos)
      parameter->value.set_requires_grad(false);
}

}  // namespace transom
