// SPDX-License-Identifier: Apache-2.0
// LoHa: the elementwise product of two products of low rank is added to the weight (Hyeon-Woo et al., 2022).
#include "models/loading/adapters/kinds/lycoris.h"

namespace transom {
namespace {

class HadamardMatrix : public AddedMatrix {
 public:
  std::shared_ptr<Parameter> first_a, first_b, second_a, second_b;  // [out, rank], [rank, in]
  std::string_view uncut() const override { return "LOHA"; }

 protected:
  Tensor matrix(const Computing& computing) const override {
    const DotAxes axes{{}, {}, {1}, {0}};
    return dot_general(first_a->value, first_b->value, axes, computing) *
           dot_general(second_a->value, second_b->value, axes, computing);
  }
};

void attach_loha(AdapterMaking& making) {
  const AdapterConfig& config = making.config;
  const bool zero = config.fields().get_bool("init_weights", true);
  for (const AdaptedWeight& target : making.targets) {
    const int64_t rank = config.rank(target.module);
    const auto adapter = std::make_shared<HadamardMatrix>();
    take_lycoris_fields(config, target, *adapter);
    const auto drawn = [&](int64_t rows, int64_t columns) {
      return [&making, rows, columns] { return draw_linear(making.generator, rows * columns, columns); };
    };
    const std::string& module = target.module;
    adapter->first_a = making.tensor(module + ".hada_w1_a", {target.out, rank}, drawn(target.out, rank));
    adapter->first_b = making.tensor(module + ".hada_w1_b", {rank, target.in}, drawn(rank, target.in));
    adapter->second_a = making.tensor(module + ".hada_w2_a", {target.out, rank}, drawn(target.out, rank));
    adapter->second_b = making.tensor(module + ".hada_w2_b", {rank, target.in},
                                      [&] { return zero ? all_of(rank * target.in, 0) : drawn(rank, target.in)(); });
    making.give(target, adapter);
  }
}

AdapterKind loha_kind() {
  return {
      .type = "LOHA",
      .what = "elementwise products of matrices of low rank",
      .defaults = R"({"alpha": 8, "alpha_pattern": {}, "exclude_modules": null, "init_weights": true,
            "layers_pattern": null, "layers_to_transform": null, "module_dropout": 0.0, "r": 8, "rank_dropout": 0.0,
            "rank_pattern": {}, "target_modules": null, "use_effective_conv2d": false})",
      .carried_out = {"alpha", "alpha_pattern", "exclude_modules", "init_weights", "layers_pattern",
                      "layers_to_transform", "module_dropout", "r", "rank_dropout", "rank_pattern", "target_modules"},
      .without_effect = {"use_effective_conv2d"},  // of convolutions
      .usual_targets = [](const FamilyWeights& weights) { return *weights.lora_targets; },
      .attach = attach_loha};
}

const RegisterAdapterKind kLoha{loha_kind};

}  // namespace
}  // namespace transom
