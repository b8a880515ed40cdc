// SPDX-License-Identifier: Apache-2.0
// LoKr: the Kronecker product of two matrices is added to the weight, each whole or of low rank.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/kinds/lycoris.h"

namespace transom {
namespace {

// A matrix, or the product of two.
struct Factor {
  std::shared_ptr<Parameter> whole, left, right;
  Tensor value(const Computing& computing) const {
    return whole ? whole->value : dot_general(left->value, right->value, {{}, {}, {1}, {0}}, computing);
  }
};

class KroneckerMatrix : public AddedMatrix {
 public:
  Factor outer, inner;  // [a, c] and [b, d], where out is a b and in is c d
  std::string_view uncut() const override { return "LOKR"; }

 protected:
  Tensor matrix(const Computing& computing) const override {
    const Tensor u = outer.value(computing), v = inner.value(computing);
    const int64_t a = u.dim(0), c = u.dim(1), b = v.dim(0), d = v.dim(1);
    return reshape(reshape(u, {a, 1, c, 1}) * reshape(v, {1, b, 1, d}), {a * b, c * d});
  }
};

// Two numbers whose product is `extent`: `factor` is the first where it divides it; else they are as near to each other
// as they can be, the lesser first and not above the factor (-1: none).
std::pair<int64_t, int64_t> factors_of(int64_t extent, int64_t factor) {
  if (factor > 0 && extent % factor == 0) return {factor, extent / factor};
  if (factor == -1) factor = extent;
  int64_t least = 1;
  for (int64_t m = 1; m <= factor && m * m <= extent; ++m)
    if (extent % m == 0) least = m;
  return {least, extent / least};
}

class LokrMaker {
 public:
  LokrMaker(AdapterMaking& making, const AdaptedWeight& target) : making_(making), target_(target) {
    const Config& fields = making.config.fields();
    rank_ = making.config.rank(target.module);
    const int64_t factor = fields.get_int("decompose_factor", -1);
    if (factor < 1 && factor != -1)
      fail("{}: decompose_factor: expected -1 or a number above 0, found {}", making.config.where(), factor);
    std::tie(a_, b_) = factors_of(target.out, factor);
    std::tie(c_, d_) = factors_of(target.in, factor);
    outer_whole_ = !(fields.get_bool("decompose_both", false) && 2 * rank_ < std::max(a_, c_));
    inner_whole_ = 2 * rank_ >= std::max(b_, d_);
    const Json& all = json_of(fields);
    const Json first = all.contains("init_weights") ? all.at("init_weights") : Json(true);
    zero_outer_ = first == true, zero_inner_ = first == "lycoris";
    if (!first.is_boolean() && !zero_inner_)
      fail("{}: init_weights: expected true, false or \"lycoris\", found {}", making.config.where(), first.dump());
  }

  std::shared_ptr<KroneckerMatrix> make() {
    const auto adapter = std::make_shared<KroneckerMatrix>();
    take_lycoris_fields(making_.config, target_, *adapter);
    adapter->scales_rows = making_.config.fields().get_bool("rank_dropout_scale", false);
    adapter->outer = factor(".lokr_w1", a_, c_, outer_whole_, zero_outer_, false);
    adapter->inner = factor(".lokr_w2", b_, d_, inner_whole_, false, zero_inner_);
    return adapter;
  }

 private:
  Factor factor(const std::string& name, int64_t rows, int64_t columns, bool whole, bool zero_left, bool zero_right) {
    const auto tensor = [&](const std::string& ending, int64_t height, int64_t width, bool zero) {
      return making_.tensor(target_.module + name + ending, {height, width}, [&, height, width, zero] {
        return zero ? all_of(height * width, 0) : draw_linear(making_.generator, height * width, width);
      });
    };
    if (whole) return {tensor("", rows, columns, zero_left || zero_right), nullptr, nullptr};
    const auto left = tensor("_a", rows, rank_, zero_left);
    return {nullptr, left, tensor("_b", rank_, columns, zero_right)};
  }

  AdapterMaking& making_;
  const AdaptedWeight& target_;
  int64_t rank_ = 0, a_ = 0, b_ = 0, c_ = 0, d_ = 0;
  bool outer_whole_ = true, inner_whole_ = true, zero_outer_ = true, zero_inner_ = false;
};

void attach_lokr(AdapterMaking& making) {
  for (const AdaptedWeight& target : making.targets) making.give(target, LokrMaker(making, target).make());
}

AdapterKind lokr_kind() {
  return {.type = "LOKR",
          .what = "Kronecker products of matrices",
          .defaults = R"({"alpha": 8, "alpha_pattern": {}, "decompose_both": false, "decompose_factor": -1,
            "exclude_modules": null, "init_weights": true, "layers_pattern": null, "layers_to_transform": null,
            "module_dropout": 0.0, "r": 8, "rank_dropout": 0.0, "rank_dropout_scale": false, "rank_pattern": {},
            "target_modules": null, "use_effective_conv2d": false})",
          .carried_out = {"alpha", "alpha_pattern", "decompose_both", "decompose_factor", "exclude_modules",
                          "init_weights", "layers_pattern", "layers_to_transform", "module_dropout", "r",
                          "rank_dropout", "rank_dropout_scale", "rank_pattern", "target_modules"},
          .without_effect = {"use_effective_conv2d"},  // of convolutions
          .usual_targets = [](const FamilyWeights& weights) { return *weights.lora_targets; },
          .attach = attach_lokr};
}

const RegisterAdapterKind kLokr{lokr_kind};

}  // namespace
}  // namespace transom
