// SPDX-License-Identifier: Apache-2.0
// VeRA (Kopiczko et al., 2024): all layers share two random matrices, which stay, and each has two vectors,
// y = W x + b * (B (d * (A dropout(x)))).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adapter_making.h"
#include "models/nn/layers.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

class VectorsOfRandomMatrices : public WeightAdapter {
 public:
  std::shared_ptr<Parameter> a, b;          // [rank, at least in] and [at least out, rank], of all layers
  std::shared_ptr<Parameter> inner, outer;  // d [rank], b [out]
  int64_t in = 0, out = 0;
  double dropout = 0;

  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override {
    const Computing& computing = context.computing;
    const Tensor own = product_without_adapter(x, weight, bias, computing);
    const Tensor low = linear(Dropout(dropout)(x, context), own_a(), {}, computing);
    const Tensor added = linear(low * inner->value, own_b(), {}, computing) * outer->value;
    return own + cast(added, own.dtype());
  }
  Tensor merged(const Parameter& weight) const override {
    const Tensor left = own_b() * unsqueeze(outer->value, 1), right = own_a() * unsqueeze(inner->value, 1);
    return as_held(wide_rows(weight) + dot_general(left, right, {{}, {}, {1}, {0}}, kAsGiven), weight);
  }
  std::string_view uncut() const override { return "VERA"; }

 private:
  Tensor own_a() const { return slice(a->value, 1, 0, in); }
  Tensor own_b() const { return slice(b->value, 0, 0, out); }
};

void attach_vera(AdapterMaking& making) {
  const AdapterConfig& config = making.config;
  const int64_t rank = config.fields().get_int("r", 256);
  int64_t in = 0, out = 0;
  for (const AdaptedWeight& target : making.targets) in = std::max(in, target.in), out = std::max(out, target.out);
  const bool saved = config.fields().get_bool("save_projection", true);
  const auto kept = saved ? AdapterMaking::Kept::kConstant : AdapterMaking::Kept::kOfMemory;
  // By a generator of their own, so that they need not be saved: kaiming_uniform_ for this many inputs.
  Mt19937 generator(static_cast<uint64_t>(config.fields().get_int("projection_prng_key", 0)));
  const auto drawn = [&](int64_t count, int64_t inputs) {
    std::vector<float> values(static_cast<size_t>(count));
    const auto bound = static_cast<float>(std::sqrt(3.0) * (std::sqrt(2.0) / std::sqrt(static_cast<double>(inputs))));
    generator.fill_uniform(values, -bound, bound);
    return values;
  };
  std::vector<float> first_a = drawn(rank * in, in), first_b = drawn(out * rank, rank);
  const auto a = making.tensor(
      "vera_A", {rank, in}, [&] { return first_a; }, kept);
  const auto b = making.tensor(
      "vera_B", {out, rank}, [&] { return first_b; }, kept);
  const bool zero = config.fields().get_bool("init_weights", true);
  for (const AdaptedWeight& target : making.targets) {
    if (target.weight->use == Parameter::Use::kTransposedLinear) making.config.set("fan_in_fan_out", true);
    const auto adapter = std::make_shared<VectorsOfRandomMatrices>();
    adapter->a = a, adapter->b = b, adapter->in = target.in, adapter->out = target.out;
    adapter->dropout = config.fields().get_float("vera_dropout", 0);
    const auto d_initial = static_cast<float>(config.fields().get_float("d_initial", 0.1));
    adapter->outer =
        making.tensor(target.module + ".vera_lambda_b", {target.out}, [&] { return all_of(target.out, zero ? 0 : 1); });
    adapter->inner = making.tensor(target.module + ".vera_lambda_d", {rank}, [&] {
      return zero ? all_of(rank, d_initial) : draw_normal(making.generator, rank);
    });
    making.give(target, adapter);
  }
}

AdapterKind vera_kind() {
  return {
      .type = "VERA",
      .what = "vectors beside random matrices that all layers share",
      .defaults = R"({"bias": "none", "d_initial": 0.1, "fan_in_fan_out": false, "init_weights": true,
            "layers_pattern": null, "layers_to_transform": null, "projection_prng_key": 0, "r": 256,
            "save_projection": true, "target_modules": null, "vera_dropout": 0.0})",
      .carried_out = {"bias", "d_initial", "fan_in_fan_out", "init_weights", "layers_pattern", "layers_to_transform",
                      "projection_prng_key", "r", "save_projection", "target_modules", "vera_dropout"},
      .usual_targets = [](const FamilyWeights& weights) { return *weights.lora_targets; },
      .attach = attach_vera,
      .own_biases = "vera_only"};
}

const RegisterAdapterKind kVera{vera_kind};

}  // namespace
}  // namespace transom
