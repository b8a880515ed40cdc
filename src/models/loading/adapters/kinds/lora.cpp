// SPDX-License-Identifier: Apache-2.0
// LoRA, of linear layers and of tables, with DoRA, biases of B, and the ways to begin that PEFT offers.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/adapters/adapter_making.h"
#include "models/loading/adapters/initial/decompositions.h"
#include "models/loading/adapters/initial/loftq.h"
#include "models/loading/adapters/kinds/trainable_tokens.h"
#include "models/nn/lora.h"

namespace transom {
namespace {

// A table E [V, D] whose rows become E[id] + scaling (B A[:, id]).
class LowRankTable : public WeightAdapter {
 public:
  LowRankTable(std::shared_ptr<Parameter> a, std::shared_ptr<Parameter> b, double scaling)
      : a_(std::move(a)), b_(std::move(b)), scaling_(scaling) {}

  Tensor rows(const Tensor& rows, const Tensor& ids, const Computing& computing) const override {
    const Tensor inner = gather(permute(a_->value, {1, 0}), ids, 0);
    return rows + cast(linear(inner, b_->value, {}, computing) * scaling_, rows.dtype());
  }
  Tensor merged(const Parameter& table) const override {
    const Tensor change =
        dot_general(cast(a_->value, DType::kFloat32), cast(b_->value, DType::kFloat32), {{}, {}, {0}, {1}}, kAsGiven);
    return as_held(wide_rows(table) + change * scaling_, table);
  }
  std::string_view uncut() const override { return "tables among target_modules"; }

 private:
  std::shared_ptr<Parameter> a_, b_;  // [rank, V] and [D, rank]
  double scaling_;
};

// How new matrices are made: A as torch.nn.Linear draws it and B zero; A of a normal distribution; both drawn; or from
// the weight, out of which their product is then taken.
enum class LoraInitial { kLinear, kGaussian, kBothLinear, kOrthogonal, kOrthonormal, kPrincipal, kCodes };

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

LoraInitial initial_of(const AdapterConfig& config) {
  const Json& fields = json_of(config.fields());
  if (!fields.contains("init_lora_weights")) return LoraInitial::kLinear;
  const Json& value = fields.at("init_lora_weights");
  if (value.is_null() || value == true) return LoraInitial::kLinear;
  if (value == false) return LoraInitial::kBothLinear;
  const std::string name = value.is_string() ? lower_case(value.get<std::string>()) : "";
  if (name == "gaussian") return LoraInitial::kGaussian;
  if (name == "orthogonal") return LoraInitial::kOrthogonal;
  if (name == "olora") return LoraInitial::kOrthonormal;
  if (name == "pissa" || name.starts_with("pissa_niter_")) return LoraInitial::kPrincipal;
  if (name == "loftq") return LoraInitial::kCodes;
  if (name == "eva") return LoraInitial::kLinear;  // A comes from what layers read: initial/eva.cpp
  fail(ErrorKind::kUnsupported,
       "{}: init_lora_weights = {} is not carried out; true, false, gaussian, orthogonal, olora, pissa, loftq and eva "
       "are",
       config.where(), transom::quoted(value.dump(), 60));
}

struct LoraMatrices {
  std::vector<float> a, b, b_bias;  // [rank, in], [out, rank], [out]
};

// torch.randn(in, rank / 2) times the odd rows of an orthogonal matrix, and the same of B with the even ones.
LoraMatrices orthogonal_matrices(Mt19937& generator, int64_t rank, int64_t in, int64_t out,
                                 const AdapterConfig& config) {
  if (rank % 2 != 0)
    fail("{}: r: expected an even rank with init_lora_weights = \"orthogonal\", found {}", config.where(), rank);
  const std::vector<float> q =
      part_of_qr(draw_normal(generator, rank * rank), rank, rank, rank).q;  // [rank, rank], rows orthonormal
  const int64_t half = rank / 2;
  const std::vector<float> left = draw_normal(generator, in * half), right = draw_normal(generator, half * out);
  LoraMatrices made{all_of(rank * in, 0), all_of(out * rank, 0), all_of(out, 0)};
  const auto at = [](int64_t row, int64_t width, int64_t column) { return static_cast<size_t>(row * width + column); };
  for (int64_t k = 0; k < rank; ++k)
    for (int64_t h = 0; h < half; ++h) {
      for (int64_t i = 0; i < in; ++i) made.a[at(k, in, i)] += left[at(i, half, h)] * q[at(2 * h, rank, k)] / 10;
      for (int64_t o = 0; o < out; ++o) made.b[at(o, rank, k)] += right[at(h, out, o)] * q[at(2 * h + 1, rank, k)] / 10;
    }
  return made;
}

LoraMatrices drawn_matrices(Mt19937& generator, int64_t rank, int64_t in, int64_t out, LoraInitial initial) {
  LoraMatrices made{all_of(rank * in, 0), all_of(out * rank, 0), all_of(out, 0)};
  made.a = initial == LoraInitial::kGaussian ? draw_normal(generator, rank * in, 1 / static_cast<double>(rank))
                                             : draw_linear(generator, rank * in, in);
  if (initial == LoraInitial::kBothLinear) {
    made.b = draw_linear(generator, out * rank, rank);
    made.b_bias = draw_linear(generator, out, rank);
  }
  return made;
}

// A and B of the weight, whose product is taken out of it: OLoRA (Büyükakyüz, 2024) by its QR decomposition, PiSSA
// (Meng et al., 2024) by its greatest singular values.
LoraMatrices taken_out(AdapterMaking& making, const AdaptedWeight& target, int64_t rank, double scaling,
                       LoraInitial initial) {
  const bool principal = initial == LoraInitial::kPrincipal;
  const char* name = principal ? "pissa" : "olora";
  const Parameter& weight = *target.weight;
  if (weight.packed || (!principal && weight.use == Parameter::Use::kTransposedLinear))
    fail(ErrorKind::kUnsupported, "{}: init_lora_weights = \"{}\" is carried out for plain weights{}, {} is {}",
         making.config.where(), name, principal ? "" : " [out, in]", weight.name,
         weight.packed ? "compressed" : "held as [in, out]");
  if (rank > std::min(target.out, target.in))
    fail("{}: r: expected at most {} for {} with init_lora_weights = \"{}\", found {}", making.config.where(),
         std::min(target.out, target.in), weight.name, name, rank);
  const Tensor wide = wide_rows(weight);
  LoraMatrices made;
  if (principal) {
    PartOfSvd part = part_of_svd(wide.to_vector<float>(), target.out, target.in, rank);
    for (int64_t k = 0; k < rank; ++k) {
      const auto root = static_cast<float>(std::sqrt(part.values[static_cast<size_t>(k)] / scaling));
      for (int64_t i = 0; i < target.in; ++i) part.right[static_cast<size_t>(k * target.in + i)] *= root;
      for (int64_t o = 0; o < target.out; ++o) part.left[static_cast<size_t>(o * rank + k)] *= root;
    }
    made = {std::move(part.right), std::move(part.left), all_of(target.out, 0)};
  } else {
    PartOfQr part = part_of_qr(wide.to_vector<float>(), target.out, target.in, rank);
    made = {std::move(part.r), std::move(part.q), all_of(target.out, 0)};
  }
  const Tensor b = Tensor::from(made.b, {target.out, rank}), a = Tensor::from(made.a, {rank, target.in});
  making.change(target, as_held(wide - dot_general(b, a, {{}, {}, {1}, {0}}, kAsGiven) * scaling, weight),
                "init_lora_weights");
  return made;
}

LoraMatrices first_matrices(AdapterMaking& making, const AdaptedWeight& target, int64_t rank, double scaling) {
  const LoraInitial initial = initial_of(making.config);
  if (initial == LoraInitial::kCodes && making.reads_file())
    fail(ErrorKind::kUnsupported,
         "{}: init_lora_weights = \"loftq\": expected true, as PEFT's script saves such adapters: their base is one of "
         "codes",
         making.config.where());
  switch (initial) {
    case LoraInitial::kOrthonormal:
    case LoraInitial::kPrincipal:
      return taken_out(making, target, rank, scaling, initial);
    case LoraInitial::kOrthogonal:
      return orthogonal_matrices(making.generator, rank, target.in, target.out, making.config);
    case LoraInitial::kCodes: {
      CorrectionOfCodes made = correction_of_codes(making, target, rank, scaling);
      return {std::move(made.a), std::move(made.b), all_of(target.out, 0)};
    }
    default:
      return drawn_matrices(making.generator, rank, target.in, target.out, initial);
  }
}

void attach_to_table(AdapterMaking& making, const AdaptedWeight& target) {
  const AdapterConfig& config = making.config;
  for (const char* field : {"use_dora", "lora_bias"})
    if (config.fields().get_bool(field, false))
      fail(ErrorKind::kUnsupported, "{}: {}: expected false beside a table among target_modules, found it with {}",
           config.where(), field, target.module);
  const int64_t rank = config.rank(target.module);
  const auto zeros = [&] { return all_of(rank * target.in, 0); };
  const auto drawn = [&] { return draw_normal(making.generator, target.out * rank); };
  const auto a = making.tensor(target.module + ".lora_embedding_A", {rank, target.in}, zeros);
  const auto b = making.tensor(target.module + ".lora_embedding_B", {target.out, rank}, drawn);
  making.give(target, std::make_shared<LowRankTable>(a, b, config.scaling(target.module)));
}

void attach_to_layer(AdapterMaking& making, const AdaptedWeight& target) {
  const AdapterConfig& config = making.config;
  const int64_t rank = config.rank(target.module);
  const auto adapter = std::make_shared<LowRankAdapter>();
  adapter->scaling = config.scaling(target.module);
  adapter->dropout = config.fields().get_float("lora_dropout", 0);
  const LoraMatrices first = first_matrices(making, target, rank, adapter->scaling);
  if (target.weight->use == Parameter::Use::kTransposedLinear) making.config.set("fan_in_fan_out", true);
  const std::string& module = target.module;
  adapter->a = making.tensor(module + ".lora_A.weight", {rank, target.in}, [&] { return first.a; });
  adapter->b = making.tensor(module + ".lora_B.weight", {target.out, rank}, [&] { return first.b; });
  if (config.fields().get_bool("lora_bias", false))
    adapter->b_bias = making.tensor(module + ".lora_B.bias", {target.out}, [&] { return first.b_bias; });
  if (config.fields().get_bool("use_dora", false)) {
    const auto lengths = [&] { return row_lengths(*target.weight, *adapter, kAsGiven).to_vector<float>(); };
    adapter->magnitude = making.tensor(module + ".lora_magnitude_vector", {target.out}, lengths);
  }
  making.give(target, adapter);
}

void attach_lora(AdapterMaking& making) {
  for (const AdaptedWeight& target : making.targets)
    if (target.is_table) attach_to_table(making, target);
    else attach_to_layer(making, target);
  attach_trainable_tokens(making);
  // What is saved stands beside the codes as any other LoRA does.
  if (initial_of(making.config) == LoraInitial::kCodes) making.config.set("init_lora_weights", true);
}

void check_lora(const AdapterConfig& config) {
  initial_of(config);
  if (config.fields().get_bool("use_dora", false) && config.fields().get_bool("lora_bias", false))
    fail("{}: lora_bias: expected false beside use_dora, as PEFT has it, found true", config.where());
}

std::vector<std::string> lora_targets(const FamilyWeights& weights) { return *weights.lora_targets; }

AdapterKind lora_kind() {
  return {.type = "LORA",
          .what = "low-rank matrices beside weights",
          .defaults = R"({"alpha_pattern": {}, "bias": "none", "exclude_modules": null, "fan_in_fan_out": false,
            "init_lora_weights": true, "layer_replication": null, "layers_pattern": null, "layers_to_transform": null,
            "loftq_config": {}, "lora_alpha": 8, "lora_bias": false, "lora_dropout": 0.0, "megatron_config": null,
            "megatron_core": "megatron.core", "r": 8, "rank_pattern": {}, "target_modules": null,
            "target_parameters": null, "trainable_token_indices": null, "use_dora": false, "use_rslora": false})",
          .carried_out = {"alpha_pattern", "bias", "eva_config", "exclude_modules", "fan_in_fan_out",
                          "init_lora_weights", "layers_pattern", "layers_to_transform", "loftq_config", "lora_alpha",
                          "lora_bias", "lora_dropout", "r", "rank_pattern", "target_modules", "trainable_token_indices",
                          "use_dora", "use_rslora"},
          .without_effect = {"corda_config", "lora_ga_config", "megatron_core", "qalora_group_size", "runtime_config"},
          .usual_targets = lora_targets,
          .takes_tables = true,
          .attach = attach_lora,
          .check = check_lora};
}

const RegisterAdapterKind kLora{lora_kind};

}  // namespace
}  // namespace transom
