// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rules/factor_rules.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "models/sharding/rules/rule_builder.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Kind = FactorRule::Kind;
using Operand = FactorRule::Operand;

using RuleOf = std::optional<FactorRule> (*)(const Node&);

std::optional<FactorRule> of_elements(const Node& node) {
  RuleBuilder rule(node);
  const Operand all = rule.factors_of(node.types[0].shape);
  for (const Tensor& input : node.inputs) {
    if (input.shape() == node.types[0].shape) rule.input(all);
    else rule.input(rule.whole(input.shape()));  // scalars
  }
  for (const Type& type : node.types) {
    if (type.shape != node.types[0].shape) return std::nullopt;
    rule.output(all);
  }
  return rule.take();
}

template <Kind kind>
std::optional<FactorRule> of_reduction(const Node& node) {
  RuleBuilder rule(node);
  const Axes& axes = node.attributes.get_ints("axes");
  Operand in, out;
  for (size_t d = 0; d < rule.rank(0); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    in.push_back({rule.factor(rule.shape(0)[d], reduced ? kind : Kind::kFree)});
    if (!reduced) out.push_back(in.back());
  }
  rule.input(in);
  rule.output(out);
  return rule.take();
}

// Along rows: all dimensions but the last are free; other inputs are rows, or one row for all.
std::optional<FactorRule> of_rows(const Node& node) {
  RuleBuilder rule(node);
  const Shape& shape = rule.shape(0);
  Operand all;
  for (size_t d = 0; d < shape.size(); ++d)
    all.push_back({rule.factor(shape[d], d + 1 == shape.size()   ? Kind::kWhole
                                         : node.types.size() > 1 ? Kind::kSum
                                                                 : Kind::kFree)});
  const auto operand = [&](const Shape& other) -> std::optional<Operand> {
    if (other == shape) return all;
    if (other.size() == 1 && other[0] == shape.back()) return Operand{all.back()};
    return std::nullopt;
  };
  for (const Tensor& input : node.inputs) {
    const auto found = operand(input.shape());
    if (!found) return std::nullopt;
    rule.input(*found);
  }
  for (const Type& type : node.types) {
    const auto found = operand(type.shape);
    if (!found) return std::nullopt;
    rule.output(*found);
  }
  return rule.take();
}

std::optional<FactorRule> of_broadcast(const Node& node) {
  RuleBuilder rule(node);
  Operand in, out;
  for (size_t d = 0; d < rule.rank(0); ++d) {
    const int64_t from = rule.shape(0)[d], to = node.types[0].shape[d];
    out.push_back({rule.factor(to, from == to ? Kind::kFree : Kind::kWhole)});
    in.push_back(from == to ? out.back() : FactorRule::Dimension{rule.factor(from, Kind::kWhole)});
  }
  rule.input(in);
  rule.output(out);
  return rule.take();
}

// Both shapes cut into the fewest pieces of equal size; a piece of one dimension on both sides is one factor, else the
// outer dimensions of both share what divides them.
std::optional<FactorRule> of_reshape(const Node& node) {
  RuleBuilder rule(node);
  const Shape &from = rule.shape(0), &to = node.types[0].shape;
  if (elements(from) == 0) return std::nullopt;
  Operand in, out;
  size_t i = 0, o = 0;
  while (i < from.size() || o < to.size()) {
    const size_t i0 = i, o0 = o;
    int64_t left = 1, right = 1;
    if (i < from.size()) left = from[i++];
    if (o < to.size()) right = to[o++];
    while (left != right)
      if (left < right) left *= from[i++];
      else right *= to[o++];
    // Dimensions of the piece as lists of factors, refined from the outside in.
    struct Side {
      const Shape& shape;
      size_t next, end;
      Operand& operand;
      int64_t rest = 0;  // of the dimension that is open
    };
    Side sides[2] = {{from, i0, i, in}, {to, o0, o, out}};
    const auto open = [](Side& side) {
      while (side.rest <= 1 && side.next < side.end) {
        side.rest = side.shape[side.next++];
        side.operand.emplace_back();
      }
    };
    while (true) {
      open(sides[0]);
      open(sides[1]);
      if (sides[0].rest <= 1 && sides[1].rest <= 1) break;
      const int64_t shared = std::gcd(sides[0].rest, sides[1].rest);
      const bool nested = shared == sides[0].rest || shared == sides[1].rest;
      const int factor = rule.factor(shared);
      for (Side& side : sides) {
        side.operand.back().push_back(factor);
        side.rest /= shared;
      }
      if (nested && shared > 1) continue;
      // The rest of the piece cannot be named by common factors.
      for (Side& side : sides) {
        if (side.rest > 1) side.operand.back().push_back(rule.factor(side.rest, Kind::kWhole));
        side.rest = 1;
        while (side.next < side.end) side.operand.push_back({rule.factor(side.shape[side.next++], Kind::kWhole)});
      }
      break;
    }
  }
  // Extents of 1 have no factors yet.
  for (auto [operand, shape] : {std::pair{&in, &from}, std::pair{&out, &to}})
    for (size_t d = 0; d < shape->size(); ++d)
      if ((*operand)[d].empty()) (*operand)[d].push_back(rule.factor((*shape)[d], Kind::kWhole));
  rule.input(in);
  rule.output(out);
  return rule.take();
}

std::optional<FactorRule> of_permute(const Node& node) {
  RuleBuilder rule(node);
  const Operand in = rule.factors_of(rule.shape(0));
  Operand out;
  for (const int64_t axis : node.attributes.get_ints("permutation")) out.push_back(in[static_cast<size_t>(axis)]);
  rule.input(in);
  rule.output(out);
  return rule.take();
}

// Free where a dimension goes through as it is.
template <typename Passes>
FactorRule of_window(const Node& node, size_t others, Passes passes) {
  RuleBuilder rule(node);
  Operand in, out;
  for (size_t d = 0; d < rule.rank(0); ++d) {
    const bool whole = !passes(d);
    in.push_back({rule.factor(rule.shape(0)[d], whole ? Kind::kWhole : Kind::kFree)});
    out.push_back(whole ? FactorRule::Dimension{rule.factor(node.types[0].shape[d], Kind::kWhole)} : in.back());
  }
  rule.input(in);
  for (size_t i = 0; i < others; ++i) rule.input(rule.whole(rule.shape(1 + i)));
  for (size_t i = 0; i < node.types.size(); ++i) rule.output(out);
  return rule.take();
}

std::optional<FactorRule> of_slice(const Node& node) {
  return of_window(node, 0, [&](size_t d) {
    return node.attributes.get_ints("starts")[d] == 0 && node.attributes.get_ints("strides")[d] == 1 &&
           node.attributes.get_ints("limits")[d] == node.inputs[0].shape()[d];
  });
}
std::optional<FactorRule> of_pad(const Node& node) {
  return of_window(node, 0, [&](size_t d) {
    return node.attributes.get_ints("low")[d] == 0 && node.attributes.get_ints("high")[d] == 0;
  });
}
std::optional<FactorRule> of_reverse(const Node& node) {
  const Axes& axes = node.attributes.get_ints("axes");
  return of_window(
      node, 0, [&](size_t d) { return std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end(); });
}
std::optional<FactorRule> of_dynamic_slice(const Node& node) {
  return of_window(node, 1, [&](size_t d) { return node.types[0].shape[d] == node.inputs[0].shape()[d]; });
}
// Along one axis, which is whole; a result without the axis lacks its dimension.
std::optional<FactorRule> along_axis(const Node& node) {
  RuleBuilder rule(node);
  const auto axis =
      node.attributes.has("axis") ? static_cast<size_t>(node.attributes.get_int("axis")) : rule.rank(0) - 1;
  Operand in = rule.factors_of(rule.shape(0)), out = in;
  const int whole = rule.factor(rule.shape(0)[axis], Kind::kWhole);
  in[axis] = {whole};
  const Shape& result = node.types[0].shape;
  if (result.size() < rule.rank(0)) out.erase(out.begin() + static_cast<long>(axis));
  else out[axis] = {result[axis] == rule.shape(0)[axis] ? whole : rule.factor(result[axis], Kind::kWhole)};
  rule.input(in);
  for (size_t i = 0; i < node.types.size(); ++i) rule.output(out);
  return rule.take();
}
std::optional<FactorRule> of_concatenate(const Node& node) {
  RuleBuilder rule(node);
  const auto axis = static_cast<size_t>(node.attributes.get_int("axis"));
  const Operand all = rule.factors_of(node.types[0].shape);
  for (size_t i = 0; i <= node.inputs.size(); ++i) {
    Operand operand = all;
    const Shape& shape = i < node.inputs.size() ? rule.shape(i) : node.types[0].shape;
    operand[axis] = {rule.factor(shape[axis], Kind::kWhole)};
    if (i < node.inputs.size()) rule.input(operand);
    else rule.output(operand);
  }
  return rule.take();
}

// x [before, axis, after], indices, and what is taken [before, indices, after].
struct Taken {
  Operand x, indices, taken;
};
Taken taken_of(RuleBuilder& rule, const Shape& x, const Shape& indices, size_t axis, Kind of_indices) {
  Taken result;
  result.x = rule.factors_of(x);
  result.x[axis] = {rule.factor(x[axis], Kind::kWhole)};
  for (const int64_t extent : indices) result.indices.push_back({rule.factor(extent, of_indices)});
  result.taken.assign(result.x.begin(), result.x.begin() + static_cast<long>(axis));
  result.taken.insert(result.taken.end(), result.indices.begin(), result.indices.end());
  result.taken.insert(result.taken.end(), result.x.begin() + static_cast<long>(axis) + 1, result.x.end());
  return result;
}
std::optional<FactorRule> of_gather(const Node& node) {
  RuleBuilder rule(node);
  const Taken taken =
      taken_of(rule, rule.shape(0), rule.shape(1), static_cast<size_t>(node.attributes.get_int("axis")), Kind::kFree);
  rule.input(taken.x);
  rule.input(taken.indices);
  rule.output(taken.taken);
  return rule.take();
}
std::optional<FactorRule> of_scatter_add(const Node& node) {
  RuleBuilder rule(node);
  const Taken taken =
      taken_of(rule, rule.shape(0), rule.shape(1), static_cast<size_t>(node.attributes.get_int("axis")), Kind::kSum);
  rule.input(taken.x);
  rule.input(taken.indices);
  rule.input(taken.taken);
  rule.added_once(0);
  rule.output(taken.x);
  return rule.take();
}

// Rows of x are set; what lies within a row may be cut.
std::optional<FactorRule> of_scatter(const Node& node) {
  RuleBuilder rule(node);
  const Operand x = rule.factors_of(rule.shape(0));
  Operand in = x, updates = x;
  in[0] = {rule.factor(rule.shape(0)[0], Kind::kWhole)};
  updates[0] = {rule.factor(rule.shape(2)[0], Kind::kWhole)};
  rule.input(in);
  rule.input({updates[0]});
  rule.input(updates);
  rule.output(in);
  return rule.take();
}

std::optional<FactorRule> of_dot_general(const Node& node) {
  RuleBuilder rule(node);
  const Axes &xb = node.attributes.get_ints("x_batch"), &yb = node.attributes.get_ints("y_batch"),
             &xc = node.attributes.get_ints("x_contract"), &yc = node.attributes.get_ints("y_contract");
  Operand x(rule.rank(0)), y(rule.rank(1)), out;
  for (size_t i = 0; i < xb.size(); ++i) {
    const auto a = static_cast<size_t>(xb[i]), b = static_cast<size_t>(yb[i]);
    x[a] = y[b] = {rule.factor(rule.shape(0)[a])};
    out.push_back(x[a]);
  }
  for (size_t i = 0; i < xc.size(); ++i) {
    const auto a = static_cast<size_t>(xc[i]), b = static_cast<size_t>(yc[i]);
    x[a] = y[b] = {rule.factor(rule.shape(0)[a], Kind::kSum)};
  }
  size_t input = 0;
  for (Operand* operand : {&x, &y}) {
    for (size_t d = 0; d < operand->size(); ++d)
      if ((*operand)[d].empty()) {
        (*operand)[d] = {rule.factor(rule.shape(input)[d])};
        out.push_back((*operand)[d]);
      }
    ++input;
  }
  rule.input(x);
  rule.input(y);
  rule.output(out);
  return rule.take();
}

std::optional<FactorRule> of_linear(const Node& node) {
  RuleBuilder rule(node);
  Operand x = rule.factors_of(rule.shape(0)), out = x;
  const int depth = rule.factor(rule.shape(1)[1], Kind::kSum), width = rule.factor(rule.shape(1)[0]);
  x.back() = {depth};
  out.back() = {width};
  rule.input(x);
  rule.input({{width}, {depth}});
  if (node.inputs.size() == 3) {
    rule.input({{width}});
    rule.added_once(2);
  }
  rule.output(out);
  return rule.take();
}

std::optional<FactorRule> of_linear_weight_gradient(const Node& node) {
  RuleBuilder rule(node);
  const int rows = rule.factor(rule.shape(0)[0], Kind::kSum), outputs = rule.factor(rule.shape(0)[1]),
            inputs = rule.factor(rule.shape(1)[1]);
  rule.input({{rows}, {outputs}});
  rule.input({{rows}, {inputs}});
  rule.output({{outputs}, {inputs}});
  rule.output({{outputs}});
  return rule.take();
}

// Rows are dealt as they stand; each goes to its group wherever it is.
std::optional<FactorRule> of_grouped_linear(const Node& node) {
  RuleBuilder rule(node);
  const Shape &x = rule.shape(0), &groups = rule.shape(1), &weight = rule.shape(2);
  const bool transposed = node.attributes.get_int("transposed") != 0;
  const int N = rule.factor(groups[0]), each = rule.factor(groups[1], Kind::kWhole),
            K = rule.factor(x.back(), Kind::kSum), O = rule.factor(weight[transposed ? 1 : 0]);
  rule.input(x.size() == 2 ? Operand{{N}, {K}} : Operand{{N}, {each}, {K}});
  rule.input({{N}, {each}});
  for (size_t i = 2; i < node.inputs.size(); ++i) rule.input(transposed ? Operand{{K}, {O}} : Operand{{O}, {K}});
  rule.output({{N}, {each}, {O}});
  return rule.take();
}

std::optional<FactorRule> of_grouped_weight_gradient(const Node& node) {
  RuleBuilder rule(node);
  const Shape &dy = rule.shape(0), &x = rule.shape(1);
  const int N = rule.factor(dy[0], Kind::kSum), each = rule.factor(dy[1], Kind::kWhole), O = rule.factor(dy[2]),
            K = rule.factor(x.back());
  rule.input({{N}, {each}, {O}});
  rule.input(x.size() == 2 ? Operand{{N}, {K}} : Operand{{N}, {each}, {K}});
  rule.input({{N}, {each}});
  for (size_t i = 0; i < node.types.size(); ++i) rule.output({{O}, {K}});
  return rule.take();
}

std::optional<FactorRule> of_cross_entropy(const Node& node) {
  RuleBuilder rule(node);
  const Operand logits = rule.factors_of(rule.shape(0), 1);
  rule.input(logits);
  rule.input({logits[0]});
  if (node.inputs.size() == 3) rule.input({logits[0]});
  rule.output(node.types[0].shape.size() == 2 ? logits : Operand{logits[0]});
  return rule.take();
}

// Each process has the losses of its rows; classes stay together.
template <bool of_gradient>
std::optional<FactorRule> of_linear_cross_entropy(const Node& node) {
  RuleBuilder rule(node);
  const auto asks = [&](const char* name) { return node.attributes.get_int(name) != 0; };
  const int N = rule.factor(rule.shape(0)[0], Kind::kSum), D = rule.factor(rule.shape(0)[1], Kind::kWhole),
            V = rule.factor(rule.shape(1)[0], Kind::kWhole);
  rule.input({{N}, {D}});
  rule.input({{V}, {D}});
  rule.input({{N}});
  if (asks("biased")) rule.input({{V}});
  if (of_gradient) rule.input({{N}});
  else rule.output({});
  for (int i = 0; !of_gradient && i < (asks("measures") ? 3 : 1); ++i) rule.output({{N}});
  if (of_gradient || asks("gradient")) rule.output({{N}, {D}});
  if (asks("weight_gradient")) {
    rule.output({{V}, {D}});
    if (asks("biased")) rule.output({{V}});
  }
  return rule.take();
}

std::optional<FactorRule> of_adamw(const Node& node) {
  RuleBuilder rule(node);
  const Operand all = rule.factors_of(rule.shape(0));
  for (int i = 0; i < 4; ++i) rule.input(all);
  for (int i = 0; i < 3; ++i) rule.input({});
  for (int i = 0; i < 3; ++i) rule.output(all);
  return rule.take();
}

// x [N, C, ...], w [O, C, ...], y [N, O, ...], by the places of these among inputs and outputs.
template <size_t of_x, size_t of_w, size_t of_y>
std::optional<FactorRule> of_convolution(const Node& node) {
  if (node.attributes.get_int("groups") != 1) return std::nullopt;
  RuleBuilder rule(node);
  const auto shape_of = [&](size_t i) { return i < 2 ? rule.shape(i) : node.types[0].shape; };
  const Shape x = shape_of(of_x), w = shape_of(of_w), y = shape_of(of_y);
  const int N = rule.factor(x[0], of_w == 2 ? Kind::kSum : Kind::kFree),
            C = rule.factor(x[1], of_y == 2 ? Kind::kSum : Kind::kFree),
            O = rule.factor(w[0], of_x == 2 ? Kind::kSum : Kind::kFree);
  std::vector<Operand> operands(3);
  operands[of_x] = {{N}, {C}};
  operands[of_w] = {{O}, {C}};
  operands[of_y] = {{N}, {O}};
  for (size_t i = 0; i < 3; ++i)
    for (size_t d = 2; d < shape_of(i).size(); ++d) operands[i].push_back({rule.factor(shape_of(i)[d], Kind::kWhole)});
  rule.input(operands[0]);
  rule.input(operands[1]);
  rule.output(operands[2]);
  return rule.take();
}

std::optional<FactorRule> of_pool(const Node& node) {
  if (node.attributes.get_int("channels_last", 0) != 0) return std::nullopt;
  return of_window(node, 0, [](size_t d) { return d < 2; });
}

const std::unordered_map<std::string_view, RuleOf>& rules() {
  static const std::unordered_map<std::string_view, RuleOf> kRules = {
      {"reduce_sum", of_reduction<Kind::kSum>},
      {"reduce_max", of_reduction<Kind::kWhole>},
      {"reduce_min", of_reduction<Kind::kWhole>},
      {"softmax", of_rows},
      {"softmax_gradient", of_rows},
      {"log_softmax", of_rows},
      {"log_softmax_gradient", of_rows},
      {"layer_norm", of_rows},
      {"layer_norm_gradient", of_rows},
      {"rms_norm", of_rows},
      {"rms_norm_gradient", of_rows},
      {"broadcast", of_broadcast},
      {"reshape", of_reshape},
      {"permute", of_permute},
      {"slice", of_slice},
      {"pad", of_pad},
      {"reverse", of_reverse},
      {"dynamic_slice", of_dynamic_slice},
      {"concatenate", of_concatenate},
      {"arg_max", along_axis},
      {"arg_min", along_axis},
      {"cumulative_sum", along_axis},
      {"sort", along_axis},
      {"top_k", along_axis},
      {"gather", of_gather},
      {"scatter", of_scatter},
      {"scatter_add", of_scatter_add},
      {"dot_general", of_dot_general},
      {"linear", of_linear},
      {"linear_weight_gradient", of_linear_weight_gradient},
      {"grouped_linear", of_grouped_linear},
      {"grouped_linear_weight_gradient", of_grouped_weight_gradient},
      {"attention", rule_of_attention},
      {"attention_gradient", rule_of_attention},
      {"paged_attention", rule_of_paged_attention},
      {"paged_sink_attention", rule_of_paged_attention},
      {"ranged_attention", rule_of_ranged_attention},
      {"ranged_attention_gradient", rule_of_ranged_attention},
      {"sink_attention", rule_of_sink_attention},
      {"sink_attention_gradient", rule_of_sink_attention},
      {"rotary", rule_of_rotary},
      {"cross_entropy", of_cross_entropy},
      {"cross_entropy_gradient", of_cross_entropy},
      {"linear_cross_entropy", of_linear_cross_entropy<false>},
      {"linear_cross_entropy_gradient", of_linear_cross_entropy<true>},
      {"adamw_step", of_adamw},
      {"convolution", of_convolution<0, 1, 2>},
      {"convolution_input_gradient", of_convolution<2, 1, 0>},
      {"convolution_weight_gradient", of_convolution<0, 2, 1>},
      {"max_pool", of_pool},
      {"sum_pool", of_pool},
      {"gelu", of_elements},
      {"gelu_tanh", of_elements},
      {"silu", of_elements},
      {"sigmoid", of_elements},
      {"gelu_gradient", of_elements},
      {"gelu_tanh_gradient", of_elements},
      {"silu_gradient", of_elements},
  };
  return kRules;
}

}  // namespace

std::optional<FactorRule> factor_rule(const Node& node) {
  if (node.operation->elementwise) return of_elements(node);
  const auto found = rules().find(node.operation->name);
  return found == rules().end() ? std::nullopt : found->second(node);
}

}  // namespace transom
