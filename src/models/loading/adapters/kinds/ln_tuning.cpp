// SPDX-License-Identifier: Apache-2.0
// LN tuning (Zhao et al., 2023): the norms of a model are trained, and nothing else.
#include "base/error.h"
#include "models/loading/adapters/adapter_making.h"

namespace transom {
namespace {

void attach_norms(AdapterMaking& making) {
  for (const AdaptedWeight& target : making.targets) {
    making.train(target.weight, target.module + ".ln_tuning_layers.weight");
    if (const std::shared_ptr<Parameter> bias = find_parameter(making.model, target.module + ".bias"))
      making.train(bias, target.module + ".ln_tuning_layers.bias");
  }
}

AdapterKind ln_tuning_kind() {
  return {.type = "LN_TUNING",
          .what = "the norms of a model",
          .defaults = R"({"exclude_modules": null, "target_modules": null})",
          .carried_out = {"exclude_modules", "target_modules"},
          .usual_targets = [](const FamilyWeights& weights) { return weights.adapter_targets.norms; },
          .takes_linear = false,
          .takes_vectors = true,
          .attach = attach_norms};
}

const RegisterAdapterKind kLnTuning{ln_tuning_kind};

}  // namespace
}  // namespace transom
