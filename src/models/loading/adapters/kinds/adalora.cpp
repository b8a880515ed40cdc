// SPDX-License-Identifier: Apache-2.0
// AdaLoRA (Zhang et al., 2023): B diag(E) A beside each weight, A and B held near orthogonal by a term of the loss. The
// triplets of a row of A, a number of E and a column of B that matter least are masked, until a budget of ranks is met.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adapter_making.h"
#include "models/nn/layers.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

class SingularTriplets : public WeightAdapter {
 public:
  std::shared_ptr<Parameter> a, e, b;  // [rank, in], [rank, 1], [out, rank]
  double scaling = 1, dropout = 0;

  Tensor product(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) const override {
    const Tensor own = product_without_adapter(x, weight, bias, context.computing);
    if (a->value.dim(0) == 0) return own;
    const Tensor inner = linear(Dropout(dropout)(x, context), a->value * e->value, {}, context.computing);
    return own + cast(linear(inner, b->value, {}, context.computing) * scaling, own.dtype());
  }
  Tensor merged(const Parameter& weight) const override {
    const Tensor own = wide_rows(weight);
    if (a->value.dim(0) == 0) return as_held(own, weight);
    const Tensor added = dot_general(b->value, a->value * e->value, {{}, {}, {1}, {0}}, kAsGiven);
    return as_held(own + cast(added, DType::kFloat32) * scaling, weight);
  }
  std::string_view uncut() const override { return "ADALORA"; }
};

// |P P' - 1|, where P are the rows of a matrix, or its columns.
Tensor distance_from_orthogonal(const Tensor& matrix, int64_t contracted, const Computing& computing) {
  const Tensor wide = cast(matrix, DType::kFloat32);
  const Tensor products = dot_general(wide, wide, {{}, {}, {contracted}, {contracted}}, computing);
  const Shape shape = products.shape();
  const Tensor one = cast(equal(iota(shape, 0), iota(shape, 1)), DType::kFloat32);
  const Tensor difference = products - one;
  return sqrt(sum(difference * difference));
}

// Of one tensor, as running means: how much the loss depends on each of its numbers, and how sure that is.
struct Importance {
  std::shared_ptr<Parameter> tensor, sensitivity, uncertainty;
};

struct AdaptedTriplets {
  std::string name;  // of E, as rank_pattern has it
  int64_t rank = 0;
  Importance a, e, b;
  std::shared_ptr<Parameter> kept;  // f32 [rank, 1]: 1 where a triplet takes part
};

class RankAllocation : public AdapterTraining {
 public:
  RankAllocation(AdapterConfig& config, std::vector<AdaptedTriplets> modules)
      : config_(config), modules_(std::move(modules)) {
    const Config& fields = config.fields();
    first_ = fields.get_int("tinit", 0), last_ = fields.get_int("tfinal", 0), every_ = fields.get_int("deltaT", 1);
    total_ = fields.get_int("total_step", 0);
    beta1_ = fields.get_float("beta1", 0.85), beta2_ = fields.get_float("beta2", 0.85);
    weight_ = fields.get_float("orth_reg_weight", 0.5);
    for (const AdaptedTriplets& module : modules_) begin_ += module.rank;
    target_ = fields.get_int("target_r", 8) * static_cast<int64_t>(modules_.size());
  }

  Tensor loss(const Computing& computing) const override {
    Tensor all;
    for (const AdaptedTriplets& module : modules_)
      for (const auto& [matrix, contracted] : {std::pair(&module.a, 1), std::pair(&module.b, 0)}) {
        const Tensor one = distance_from_orthogonal(matrix->tensor->value, contracted, computing);
        all = all.defined() ? all + one : one;
      }
    return all.defined() ? all * (weight_ / static_cast<double>(2 * modules_.size())) : Tensor();
  }

  void expect_updates(int64_t total) override {
    if (total_ <= 0) config_.set("total_step", total_ = total);
    check_steps();
  }

  void trace_update(std::span<const std::shared_ptr<Parameter>> trained, std::span<const Tensor> gradients,
                    int64_t number) override {
    check_steps();
    // What is made of them here is no use of theirs that gradients go through.
    for (const std::shared_ptr<Parameter>& parameter : trained) parameter->value.set_requires_grad();
    for (AdaptedTriplets& module : modules_) {
      if (number < total_ - last_)
        for (Importance* one : {&module.a, &module.e, &module.b})
          for (size_t i = 0; i < trained.size(); ++i)
            if (trained[i] == one->tensor) update(*one, gradients[i]);
      if (number > total_ - last_) module.e.tensor->value = module.e.tensor->value * module.kept->value;
    }
  }

  void end_update(int64_t number) override {
    const auto [budget, masks] = budget_at(number);
    if (number < total_ - last_ ? masks : number == total_ - last_) mask_to(budget);
  }

 private:
  void check_steps() const {
    if (total_ <= 0) fail("{}: total_step: expected the number of updates, found {}", config_.where(), total_);
    if (first_ > total_ - last_)
      fail("{}: expected tinit and tfinal of at most {} (total_step) together, found {} and {}", config_.where(),
           total_, first_, last_);
  }

  void update(Importance& one, const Tensor& gradient) {
    const Tensor& value = one.tensor->value;
    const Tensor now = gradient.defined() ? abs(value * gradient) : zeros(value.shape());
    one.sensitivity->value = one.sensitivity->value * beta1_ + now * (1 - beta1_);
    one.uncertainty->value = one.uncertainty->value * beta2_ + abs(now - one.sensitivity->value) * (1 - beta2_);
  }

  // How many ranks may be left behind an update, and whether the others are masked there.
  std::pair<int64_t, bool> budget_at(int64_t number) const {
    if (number <= first_) return {begin_, false};
    if (number > total_ - last_) return {target_, true};
    const double left = 1 - static_cast<double>(number - first_) / static_cast<double>(total_ - last_ - first_);
    const auto budget =
        static_cast<int64_t>(static_cast<double>(begin_ - target_) * std::pow(left, 3) + static_cast<double>(target_));
    return {budget, number % every_ == 0};
  }

  // Of each triplet: the importance of E, and the means of those of its row of A and of its column of B.
  static std::vector<float> scores_of(const AdaptedTriplets& module) {
    const auto score = [](const Importance& one) { return one.sensitivity->value * one.uncertainty->value; };
    return (reshape(score(module.e), {-1}) + (mean(score(module.a), {1}) + mean(score(module.b), {0})))
        .to_vector<float>();
  }

  void mask_to(int64_t budget) {
    std::vector<std::vector<float>> scores;
    std::vector<float> all;
    for (const AdaptedTriplets& module : modules_) {
      scores.push_back(scores_of(module));
      all.insert(all.end(), scores.back().begin(), scores.back().end());
    }
    const int64_t masked = begin_ - budget;
    if (masked < 1) return;
    std::nth_element(all.begin(), all.begin() + (masked - 1), all.end());
    const float threshold = all[static_cast<size_t>(masked - 1)];
    Json pattern = Json::object();
    for (size_t m = 0; m < modules_.size(); ++m) {
      AdaptedTriplets& module = modules_[m];
      std::vector<float> kept;
      Json row = Json::array();
      for (const float score : scores[m]) {
        kept.push_back(score > threshold ? 1.0F : 0.0F);
        row.push_back(score > threshold);
      }
      module.kept->value = Tensor::from(kept, {module.rank, 1});
      std::vector<float> left = module.e.tensor->value.to_vector<float>();
      for (size_t i = 0; i < left.size(); ++i) left[i] *= kept[i];
      module.e.tensor->value = Tensor::from(left, {module.rank, 1});
      module.e.tensor->value.set_requires_grad();
      pattern[module.name] = std::move(row);
    }
    config_.set("rank_pattern", std::move(pattern));
  }

  AdapterConfig& config_;
  std::vector<AdaptedTriplets> modules_;
  int64_t first_ = 0, last_ = 0, every_ = 1, total_ = 0, begin_ = 0, target_ = 0;
  double beta1_ = 0, beta2_ = 0, weight_ = 0;
};

// The number of triplets that a file of PEFT holds of a module: those that rank_pattern keeps.
int64_t rank_in_file(const AdapterMaking& making, const std::string& name, int64_t rank) {
  const Json& fields = json_of(making.config.fields());
  if (!making.reads_file() || making.reads_training() || !fields.contains("rank_pattern")) return rank;
  const Json& pattern = fields.at("rank_pattern");
  if (!pattern.is_object() || !pattern.contains(name)) return rank;
  const Json& row = pattern.at(name);
  if (!row.is_array() || static_cast<int64_t>(row.size()) != rank)
    fail("{}: rank_pattern: expected {} of true and false for {}, found {}", making.config.where(), rank, name,
         transom::quoted(row.dump(), 60));
  return std::count(row.begin(), row.end(), Json(true));
}

void attach_adalora(AdapterMaking& making) {
  const Config& fields = making.config.fields();
  const int64_t full = fields.get_int("init_r", 12);
  const double alpha = fields.get_float("lora_alpha", 8);
  const bool zero = fields.get_bool("init_lora_weights", true);
  std::vector<AdaptedTriplets> modules;
  for (const AdaptedWeight& target : making.targets) {
    if (target.weight->use == Parameter::Use::kTransposedLinear) making.config.set("fan_in_fan_out", true);
    const std::string& module = target.module;
    const int64_t rank = rank_in_file(making, module + ".lora_E", full);
    const auto adapter = std::make_shared<SingularTriplets>();
    adapter->scaling = (alpha > 0 ? alpha : static_cast<double>(full)) / (static_cast<double>(full) + 1e-5);
    adapter->dropout = fields.get_float("lora_dropout", 0);
    const auto drawn = [&](int64_t count) { return draw_normal(making.generator, count, zero ? 0.02 : 1); };
    adapter->a = making.tensor(module + ".lora_A", {rank, target.in}, [&] { return drawn(rank * target.in); });
    adapter->b = making.tensor(module + ".lora_B", {target.out, rank}, [&] { return drawn(target.out * rank); });
    adapter->e = making.tensor(module + ".lora_E", {rank, 1}, [&] { return zero ? all_of(rank, 0) : drawn(rank); });
    const auto state = [&](const std::string& name, const Shape& shape, float value) {
      return making.tensor(
          module + name, shape, [&] { return all_of(shape[0] * shape[1], value); }, AdapterMaking::Kept::kState);
    };
    const auto importance = [&](const std::shared_ptr<Parameter>& tensor, const std::string& name) {
      const Shape& shape = tensor->value.shape();
      return Importance{tensor, state(name + ".sensitivity", shape, 0), state(name + ".uncertainty", shape, 0)};
    };
    modules.push_back({module + ".lora_E", rank, importance(adapter->a, ".lora_A"), importance(adapter->e, ".lora_E"),
                       importance(adapter->b, ".lora_B"), state(".lora_E.kept", {rank, 1}, 1)});
    making.give(target, adapter);
  }
  making.set_training(std::make_shared<RankAllocation>(making.config, std::move(modules)));
}

// In PEFT's file only the triplets that rank_pattern keeps stand.
Tensor kept_triplets(const AdapterConfig& config, const std::string& name, const Tensor& value) {
  const Json& fields = json_of(config.fields());
  const size_t ending = name.rfind(".lora_");
  if (ending == name.npos || !fields.contains("rank_pattern") || !fields.at("rank_pattern").is_object()) return value;
  const std::string module = name.substr(0, ending) + ".lora_E";
  const Json& pattern = fields.at("rank_pattern");
  const int64_t axis = name.ends_with(".lora_B") ? 1 : 0;
  if (!pattern.contains(module) || static_cast<int64_t>(pattern.at(module).size()) != value.dim(axis)) return value;
  std::vector<int64_t> kept;
  for (size_t i = 0; i < pattern.at(module).size(); ++i)
    if (pattern.at(module)[i] == true) kept.push_back(static_cast<int64_t>(i));
  const auto count = static_cast<int64_t>(kept.size());
  if (count == 0) return zeros(axis == 0 ? Shape{0, value.dim(1)} : Shape{value.dim(0), 0});
  return gather(value, Tensor::from(kept, {count}), axis);
}

void check_adalora(const AdapterConfig& config) {
  const Config& fields = config.fields();
  for (const char* field : {"tinit", "tfinal", "total_step"})
    if (fields.get_int(field, 0) < 0)
      fail("{}: {}: expected a number of updates, found {}", config.where(), field, fields.get_int(field, 0));
  if (fields.get_int("deltaT", 1) < 1)
    fail("{}: deltaT: expected at least 1, found {}", config.where(), fields.get_int("deltaT", 1));
  for (const char* field : {"beta1", "beta2"})
    if (const double beta = fields.get_float(field, 0.85); !(beta > 0 && beta < 1))
      fail("{}: {}: expected a number between 0 and 1, found {}", config.where(), field, beta);
  if (fields.get_float("orth_reg_weight", 0.5) < 0)
    fail("{}: orth_reg_weight: expected at least 0, found {}", config.where(), fields.get_float("orth_reg_weight"));
}

std::vector<std::string> adalora_targets(const FamilyWeights& weights) {
  return weights.adapter_targets.adalora.empty() ? *weights.lora_targets : weights.adapter_targets.adalora;
}

AdapterKind adalora_kind() {
  return {
      .type = "ADALORA",
      .what = "low-rank matrices whose ranks are allocated while they are trained",
      .defaults = R"({"beta1": 0.85, "beta2": 0.85, "bias": "none", "deltaT": 1, "exclude_modules": null,
            "fan_in_fan_out": false, "init_lora_weights": true, "init_r": 12, "layers_pattern": null,
            "layers_to_transform": null, "lora_alpha": 8, "lora_dropout": 0.0, "megatron_core": "megatron.core",
            "orth_reg_weight": 0.5, "r": 8, "rank_pattern": null, "target_modules": null, "target_r": 8, "tfinal": 0,
            "tinit": 0, "total_step": null})",
      .carried_out = {"beta1", "beta2", "bias", "deltaT", "exclude_modules", "fan_in_fan_out", "init_lora_weights",
                      "init_r", "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout",
                      "orth_reg_weight", "rank_pattern", "target_modules", "target_r", "tfinal", "tinit", "total_step"},
      // PEFT takes init_r, and neither alpha_pattern nor use_rslora, for its layers.
      .without_effect = {"alpha_pattern", "megatron_core", "qalora_group_size", "r", "use_rslora"},
      .usual_targets = adalora_targets,
      .attach = attach_adalora,
      .as_saved = kept_triplets,
      .check = check_adalora};
}

const RegisterAdapterKind kAdalora{adalora_kind};

}  // namespace
}  // namespace transom
