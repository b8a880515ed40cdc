// SPDX-License-Identifier: Apache-2.0
// Cross entropy of a linear layer over a vocabulary, some rows at a time: neither the logits of all rows nor their
// gradient is ever held.
#include "graph/ops/rows/linear_cross_entropy.h"

#include <algorithm>

#include "graph/ops/computing.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;
constexpr int64_t kIgnoredRow = -100;

struct FusedLossParts {
  Tensor x, weight, labels, bias;
  LinearCrossEntropyOptions options;
};

bool has_bias(const Attributes& attributes) { return attributes.get_int("biased") != 0; }

LinearCrossEntropyOptions options_of_fused_loss(const Attributes& attributes) {
  const auto flag = [&](const char* name) { return attributes.get_int(name) != 0; };
  return {.rows = attributes.get_int("rows"),
          .multiplier = attributes.get_float("multiplier"),
          .soft_cap = attributes.get_float("soft_cap"),
          .dynamic = flag("dynamic"),
          .measures = flag("measures"),
          .gradient = flag("gradient"),
          .weight_gradient = flag("weight_gradient")};
}

// The outputs in their order: those that are not asked for are left out.
struct FusedLossOutputs {
  Tensor total, losses, entropy, right, dx, dweight, dbias;

  Tensors listed() const {
    Tensors all;
    for (const Tensor* each : {&total, &losses, &entropy, &right, &dx, &dweight, &dbias})
      if (each->defined()) all.push_back(*each);
    return all;
  }
};
FusedLossOutputs outputs_by_name(std::span<const Tensor> outputs, const Attributes& attributes) {
  const LinearCrossEntropyOptions options = options_of_fused_loss(attributes);
  FusedLossOutputs named{.total = outputs[0], .losses = outputs[1]};
  size_t next = 2;
  if (options.measures) named.entropy = outputs[next++], named.right = outputs[next++];
  if (options.gradient) named.dx = outputs[next++];
  if (options.weight_gradient) {
    named.dweight = outputs[next++];
    if (has_bias(attributes)) named.dbias = outputs[next];
  }
  return named;
}

// What logits are kept in: products of 16 bits are not rounded.
DType wide_of(DType dtype) { return size_of(dtype) == 2 ? DType::kFloat32 : dtype; }

// The logits of rows of x.
Tensor logits_of_rows(const FusedLossParts& p, const Tensor& x) {
  const LinearCrossEntropyOptions& o = p.options;
  const DType wide = wide_of(p.x.dtype());
  Tensor z = dot_general(x, p.weight, {{}, {}, {1}, {1}}, kAsGiven, wide);
  if (p.bias.defined()) z = z + cast(p.bias, wide);
  if (o.multiplier != 1) z = z * o.multiplier;
  return o.soft_cap > 0 ? tanh(z * (1 / o.soft_cap)) * o.soft_cap : z;
}

// The gradients of these rows, whose losses have the gradients `weights`.
void add_gradients_of_rows(const FusedLossParts& p, const Tensor& x, const Tensor& z, const Tensor& labels,
                           const Tensor& weights, FusedLossOutputs& made) {
  const LinearCrossEntropyOptions& o = p.options;
  // (softmax - one at the label) of each row, as cross_entropy's own gradient.
  Tensor dz =
      make_tensor(find_operation("cross_entropy_gradient"), {z, labels, weights}, {{"ignore_index", kIgnoredRow}});
  if (o.soft_cap > 0) {
    const Tensor share = z * (1 / o.soft_cap);
    dz = dz * (1.0 - share * share);
  }
  if (o.multiplier != 1) dz = dz * o.multiplier;
  if (o.weight_gradient && p.bias.defined()) made.dbias = reduce_sum(dz, {0});
  dz = cast(dz, p.x.dtype());
  made.dx = dot_general(dz, p.weight, {{}, {}, {1}, {0}}, kAsGiven);
  if (o.weight_gradient) made.dweight = dot_general(dz, x, {{}, {}, {0}, {0}}, kAsGiven, wide_of(p.x.dtype()));
}

// Of the rows from `begin` to `end`; `total` is not set.
FusedLossOutputs loss_of_rows(const FusedLossParts& p, int64_t begin, int64_t end) {
  const LinearCrossEntropyOptions& o = p.options;
  const Tensor x = slice(p.x, 0, begin, end), labels = slice(p.labels, 0, begin, end), z = logits_of_rows(p, x);
  FusedLossOutputs made;
  const Tensor plain = cross_entropy(z, labels, kIgnoredRow, kAsGiven);
  const Tensor probability = exp(-plain).detach();
  made.losses = o.dynamic ? plain * probability : plain;
  if (o.measures) {
    const Tensor logs = log_softmax(z.detach(), kAsGiven);
    made.entropy = -reduce_sum(exp(logs) * logs, {1});
    made.right = cast(equal(cast(arg_max(z.detach(), 1), DType::kInt64), labels), DType::kFloat32);
  }
  if (o.gradient)
    add_gradients_of_rows(p, x, z, labels, o.dynamic ? probability : full(plain.shape(), 1, z.dtype()), made);
  return made;
}

// The same rows once more, for the gradients of each loss.
FusedLossOutputs gradients_of_rows(const FusedLossParts& p, const Tensor& dlosses, int64_t begin, int64_t end) {
  const Tensor x = slice(p.x, 0, begin, end), labels = slice(p.labels, 0, begin, end), z = logits_of_rows(p, x);
  Tensor weights = cast(slice(dlosses, 0, begin, end), z.dtype());
  if (p.options.dynamic) weights = weights * exp(-cross_entropy(z, labels, kIgnoredRow, kAsGiven));
  FusedLossOutputs made;
  add_gradients_of_rows(p, x, z, labels, weights, made);
  return made;
}

Tensor joined_rows(const std::vector<FusedLossOutputs>& parts, Tensor FusedLossOutputs::*name) {
  Tensors all;
  for (const FusedLossOutputs& part : parts)
    if ((part.*name).defined()) all.push_back(part.*name);
  return all.size() > 1 ? concatenate(all, 0) : all.empty() ? Tensor() : all[0];
}

Tensor added_rows(const std::vector<FusedLossOutputs>& parts, Tensor FusedLossOutputs::*name, DType dtype) {
  Tensor total;
  for (const FusedLossOutputs& part : parts)
    if ((part.*name).defined()) total = total.defined() ? total + part.*name : part.*name;
  return total.defined() ? cast(total, dtype) : total;
}

FusedLossParts parts_of_fused_loss(std::span<const Tensor> in, const Attributes& attributes) {
  FusedLossParts p{.x = in[0], .weight = in[1], .labels = in[2], .options = options_of_fused_loss(attributes)};
  if (has_bias(attributes)) p.bias = in[3];
  return p;
}

template <typename Rows>
std::vector<FusedLossOutputs> rows_at_a_time(const FusedLossParts& p, const Rows& of_rows) {
  const int64_t N = p.x.dim(0), rows = std::max<int64_t>(p.options.rows, 1);
  std::vector<FusedLossOutputs> parts;
  for (int64_t begin = 0; begin < N; begin += rows) parts.push_back(of_rows(begin, std::min(begin + rows, N)));
  return parts;
}

Tensors decompose_fused_loss(std::span<const Tensor> in, const Attributes& attributes) {
  const FusedLossParts p = parts_of_fused_loss(in, attributes);
  const std::vector<FusedLossOutputs> parts =
      rows_at_a_time(p, [&](int64_t begin, int64_t end) { return loss_of_rows(p, begin, end); });
  FusedLossOutputs made{
      .losses = joined_rows(parts, &FusedLossOutputs::losses),
      .entropy = joined_rows(parts, &FusedLossOutputs::entropy),
      .right = joined_rows(parts, &FusedLossOutputs::right),
      .dx = joined_rows(parts, &FusedLossOutputs::dx),
      .dweight = added_rows(parts, &FusedLossOutputs::dweight, p.weight.dtype()),
      .dbias = p.bias.defined() ? added_rows(parts, &FusedLossOutputs::dbias, p.bias.dtype()) : Tensor()};
  made.total = sum(made.losses);
  for (Tensor* each : {&made.total, &made.losses, &made.entropy, &made.right})
    if (each->defined()) *each = cast(*each, DType::kFloat32);
  return made.listed();
}

Tensors decompose_fused_gradient(std::span<const Tensor> in, const Attributes& attributes) {
  const FusedLossParts p = parts_of_fused_loss(in, attributes);
  const Tensor& dlosses = in.back();
  const std::vector<FusedLossOutputs> parts =
      rows_at_a_time(p, [&](int64_t begin, int64_t end) { return gradients_of_rows(p, dlosses, begin, end); });
  Tensors made{joined_rows(parts, &FusedLossOutputs::dx)};
  if (!p.options.weight_gradient) return made;
  made.push_back(added_rows(parts, &FusedLossOutputs::dweight, p.weight.dtype()));
  if (p.bias.defined()) made.push_back(added_rows(parts, &FusedLossOutputs::dbias, p.bias.dtype()));
  return made;
}

// Of x, weight, labels and the bias, behind which `more` inputs stand.
void check_fused_operands(const Inference& in, size_t more) {
  const bool biased = has_bias(in.attributes);
  expect_inputs(in, (biased ? 4 : 3) + more);
  expect_floating(in, 0);
  check(in, in.rank(0) == 2 && in.rank(1) == 2 && in.shape(0)[1] == in.shape(1)[1] && in.dtype(0) == in.dtype(1),
        "expected x [N, D] and weight [V, D] of one type, found {} and {}", in.inputs[0], in.inputs[1]);
  const int64_t N = in.shape(0)[0];
  check(in, N > 0 && in.shape(1)[0] > 0, "expected rows and classes, found {} and {}", in.inputs[0], in.inputs[1]);
  check(in, in.inputs[2] == Type{DType::kInt64, {N}}, "expected labels i64[{}], found {}", N, in.inputs[2]);
  if (biased)
    check(in, in.rank(3) == 1 && in.shape(3)[0] == in.shape(1)[0], "a bias of {} does not fit {} classes", in.inputs[3],
          in.shape(1)[0]);
}

std::vector<Type> types_of_fused_gradient(const Inference& in) {
  check_fused_operands(in, 1);
  // f64 beside x of f64, where gradients are compared with differences.
  const Type expected{DType::kFloat32, {in.shape(0)[0]}}, wide{DType::kFloat64, expected.shape};
  check(in, in.inputs.back() == expected || (in.dtype(0) == DType::kFloat64 && in.inputs.back() == wide),
        "expected gradients of losses {}, found {}", expected, in.inputs.back());
  std::vector<Type> types{in.inputs[0]};
  if (!options_of_fused_loss(in.attributes).weight_gradient) return types;
  types.push_back(in.inputs[1]);
  if (has_bias(in.attributes)) types.push_back(in.inputs[3]);
  return types;
}

std::vector<Type> types_of_fused_loss(const Inference& in) {
  check_fused_operands(in, 0);
  const bool biased = has_bias(in.attributes);
  const int64_t N = in.shape(0)[0];
  const LinearCrossEntropyOptions options = options_of_fused_loss(in.attributes);
  check(in, options.gradient || !options.weight_gradient, "weight_gradient: expected gradient with it");
  const Type rows{DType::kFloat32, {N}};
  std::vector<Type> types{{DType::kFloat32, {}}, rows};
  if (options.measures) types.insert(types.end(), 2, rows);
  if (options.gradient) types.push_back(in.inputs[0]);
  if (options.weight_gradient) {
    types.push_back(in.inputs[1]);
    if (biased) types.push_back(in.inputs[3]);
  }
  return types;
}

double flops_of_fused_loss(const CostRequest& cost) {
  const LinearCrossEntropyOptions options = options_of_fused_loss(cost.attributes);
  const double products = 1 + (options.gradient ? 1 : 0) + (options.weight_gradient ? 1 : 0);
  return 2 * products * static_cast<double>(elements(cost.inputs[0].shape)) *
         static_cast<double>(cost.inputs[1].shape[0]);
}

Attributes attributes_of_fused_loss(const LinearCrossEntropyOptions& options, bool biased) {
  const auto flag = [](bool on) { return static_cast<int64_t>(on); };
  return {{"rows", options.rows},
          {"multiplier", options.multiplier},
          {"soft_cap", options.soft_cap},
          {"dynamic", flag(options.dynamic)},
          {"measures", flag(options.measures)},
          {"gradient", flag(options.gradient)},
          {"weight_gradient", flag(options.weight_gradient)},
          {"biased", flag(biased)}};
}

// Those of the total, which were computed with it; those of each loss compute the logits once more.
Tensors gradient_of_fused_loss(const GradientRequest& request) {
  const FusedLossOutputs made = outputs_by_name(request.outputs, request.attributes);
  const bool of_losses = std::none_of(request.cotangents.begin() + 2, request.cotangents.end(),
                                      [](const Tensor& cotangent) { return cotangent.defined(); });
  const Tensor &of_total = request.cotangents[0], &of_each = request.cotangents[1];
  const bool biased = request.inputs.size() > 3;
  const bool all_made = (!request.wanted(0) || made.dx.defined()) && (!request.wanted(1) || made.dweight.defined()) &&
                        (!biased || !request.wanted(3) || made.dbias.defined());
  if (!of_losses) return {};
  if (!of_each.defined() && all_made) {
    const auto scaled = [&](const Tensor& x) {
      const DType wide = x.defined() ? wide_of(x.dtype()) : DType::kFloat32;
      return x.defined() ? cast(cast(x, wide) * cast(of_total, wide), x.dtype()) : x;
    };
    Tensors result{scaled(made.dx), scaled(made.dweight), Tensor()};
    if (biased) result.push_back(scaled(made.dbias));
    return result;
  }
  const Shape rows{request.inputs[0].dim(0)};
  // Beside x of f64 they are not rounded.
  const DType dtype = request.inputs[0].dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Tensor dlosses = of_each.defined() ? cast(of_each, dtype) : zeros(rows, dtype);
  if (of_total.defined()) dlosses = dlosses + broadcast_to(reshape(cast(of_total, dtype), {1}), rows);
  LinearCrossEntropyOptions options = options_of_fused_loss(request.attributes);
  options.measures = options.gradient = false;
  options.weight_gradient = request.wanted(1) || (biased && request.wanted(3));
  Tensors inputs(request.inputs.begin(), request.inputs.end());
  inputs.push_back(dlosses);
  const Tensors found = make_tensors(find_operation("linear_cross_entropy_gradient"), std::move(inputs),
                                     attributes_of_fused_loss(options, biased));
  Tensors result(request.inputs.size());
  result[0] = found[0];
  if (options.weight_gradient) result[1] = found[1];
  if (options.weight_gradient && biased) result[3] = found[2];
  return result;
}

const Operation kLinearCrossEntropyGradient = {
    .name = "linear_cross_entropy_gradient",
    .kind = OperationKind::kComposite,
    .documentation =
        "(the inputs of linear_cross_entropy, dlosses f32 [N]): the gradient for x of its losses, which have these "
        "gradients, and with `weight_gradient` those for weight and bias; `rows` rows of logits at a time.",
    .category = Category::kProducts,
    .flops =
        [](const CostRequest& cost) {
          const double products = options_of_fused_loss(cost.attributes).weight_gradient ? 3 : 2;
          return 2 * products * static_cast<double>(elements(cost.inputs[0].shape)) *
                 static_cast<double>(cost.inputs[1].shape[0]);
        },
    .infer = types_of_fused_gradient,
    .decompose = decompose_fused_gradient,
    .samples =
        [] {
          std::vector<Sample> samples;
          const auto add = [&](DType dtype, int64_t N, int64_t D, int64_t V, LinearCrossEntropyOptions options,
                               bool biased) {
            std::vector<Type> inputs{{dtype, {N, D}}, {dtype, {V, D}}, {DType::kInt64, {N}}};
            if (biased) inputs.push_back({dtype, {V}});
            inputs.push_back({DType::kFloat32, {N}});
            samples.push_back({inputs, attributes_of_fused_loss(options, biased), -1, 1, V});
          };
          for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
            add(dtype, 5, 3, 7, {.rows = 2}, false);
            add(dtype, 4, 4, 5, {.rows = 3, .multiplier = 0.5, .soft_cap = 2, .weight_gradient = true}, true);
          }
          return samples;
        }};

const Operation kLinearCrossEntropy = {
    .name = "linear_cross_entropy",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [N, D], weight [V, D], labels i64 [N], bias [V]): of the logits linear(x, weight, bias) the sum of the "
        "cross entropies and each of them [N], `rows` rows at a time; with `measures` the entropies and whether the "
        "largest logit is the label's, [N] each; with `gradient` that of the sum for x, with `weight_gradient` for "
        "weight and bias. bias is there where `biased` is 1; labels of -100 count nothing; `multiplier` and `soft_cap` "
        "change the logits; `dynamic` multiplies each loss by the probability of its label.",
    .category = Category::kProducts,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_fused_loss,
    .infer = types_of_fused_loss,
    .decompose = decompose_fused_loss,
    .gradient = gradient_of_fused_loss,
    .samples = [] {
      std::vector<Sample> samples;
      const auto add = [&](DType dtype, int64_t N, int64_t D, int64_t V, LinearCrossEntropyOptions options,
                           bool biased) {
        std::vector<Type> inputs{{dtype, {N, D}}, {dtype, {V, D}}, {DType::kInt64, {N}}};
        if (biased) inputs.push_back({dtype, {V}});
        samples.push_back({inputs, attributes_of_fused_loss(options, biased), -1, 1, V});
      };
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        add(dtype, 5, 3, 7, {.rows = 2}, false);
        add(dtype, 4, 3, 7, {.rows = 2, .gradient = true, .weight_gradient = true}, false);
        add(dtype, 3, 4, 5, {.rows = 8, .multiplier = 0.5, .soft_cap = 2, .gradient = true, .weight_gradient = true},
            true);
        add(dtype, 7, 2, 9, {.rows = 3, .gradient = true}, false);
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredLinearCrossEntropy{&kLinearCrossEntropy, &kLinearCrossEntropyGradient};

LinearCrossEntropy linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& labels,
                                        const LinearCrossEntropyOptions& options, const Computing& computing) {
  Tensors inputs = autocast_inputs(kLinearCrossEntropy, {x, weight}, computing);
  inputs.push_back(labels);
  if (bias.defined()) inputs.push_back(cast(bias, inputs[0].dtype()));
  const Attributes attributes = attributes_of_fused_loss(options, bias.defined());
  const Tensors made = make_tensors(kLinearCrossEntropy, std::move(inputs), attributes);
  const FusedLossOutputs named = outputs_by_name(made, attributes);
  return {named.total, options.through_losses ? named.losses : named.losses.detach(), named.entropy, named.right};
}

}  // namespace transom
