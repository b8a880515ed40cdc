// SPDX-License-Identifier: Apache-2.0
// (IA)3 (Liu et al., 2022): a vector scales what a linear layer gives, or what a feed-forward layer reads.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adapter_making.h"
#include "models/nn/weight.h"
#include "models/records.h"

namespace transom {
namespace {

class ScalingVector : public WeightAdapter {
 public:
  ScalingVector(std::shared_ptr<Parameter> scales, bool of_inputs) : scales_(std::move(scales)), inputs_(of_inputs) {}

  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override {
    const Tensor scales = flat();
    if (!inputs_) {
      const Tensor y = product_without_adapter(x, weight, bias, context.computing);
      return cast(y * scales, y.dtype());
    }
    return product_without_adapter(cast(x * scales, x.dtype()), weight, bias, context.computing);
  }
  Tensor merged(const Parameter& weight) const override {
    return as_held(wide_rows(weight) * cast(unsqueeze(flat(), inputs_ ? 0 : 1), DType::kFloat32), weight);
  }
  Tensor merged_bias(const Tensor& bias) const override { return inputs_ ? bias : cast(bias * flat(), bias.dtype()); }
  std::string_view uncut() const override { return "IA3"; }

 private:
  Tensor flat() const { return reshape(scales_->value, {-1}); }
  std::shared_ptr<Parameter> scales_;  // [1, in] or [out, 1]
  bool inputs_;
};

void attach_ia3(AdapterMaking& making) {
  const bool ones = making.config.fields().get_bool("init_ia3_weights", true);
  for (const AdaptedWeight& target : making.targets) {
    if (target.weight->use == Parameter::Use::kTransposedLinear) making.config.set("fan_in_fan_out", true);
    const bool of_inputs = making.config.holds("feedforward_modules", target.module);
    const int64_t count = of_inputs ? target.in : target.out;
    const auto first = [&] { return ones ? all_of(count, 1) : draw_normal(making.generator, count); };
    const auto scales = making.tensor(target.module + ".ia3_l", of_inputs ? Shape{1, count} : Shape{count, 1}, first);
    making.give(target, std::make_shared<ScalingVector>(scales, of_inputs));
  }
}

// The modules that read scaled inputs follow from the family where nobody names any of the two.
void complete_ia3(AdapterConfig& config, const Model& model) {
  if (config.says_targets()) return;
  if (const Family* family = find_family(model.config()); family && !family->weights.adapter_targets.ia3.empty())
    config.set("feedforward_modules", family->weights.adapter_targets.ia3_feedforward);
}

void check_ia3(const AdapterConfig& config) {
  const Json& fields = json_of(config.fields());
  const auto is_list = [&](const char* name) { return fields.contains(name) && fields.at(name).is_array(); };
  if (!is_list("feedforward_modules") || !is_list("target_modules")) return;
  for (const Json& module : fields.at("feedforward_modules"))
    if (std::find(fields.at("target_modules").begin(), fields.at("target_modules").end(), module) ==
        fields.at("target_modules").end())
      fail("{}: feedforward_modules: expected some of target_modules, found {}", config.where(), module.dump());
}

AdapterKind ia3_kind() {
  return {
      .type = "IA3",
      .what = "vectors that scale activations",
      .defaults = R"({"exclude_modules": null, "fan_in_fan_out": false, "feedforward_modules": null,
            "init_ia3_weights": true, "target_modules": null})",
      .carried_out = {"exclude_modules", "fan_in_fan_out", "feedforward_modules", "init_ia3_weights", "target_modules"},
      .usual_targets = [](const FamilyWeights& weights) { return weights.adapter_targets.ia3; },
      .attach = attach_ia3,
      .check = check_ia3,
      .complete = complete_ia3};
}

const RegisterAdapterKind kIa3{ia3_kind};

}  // namespace
}  // namespace transom
