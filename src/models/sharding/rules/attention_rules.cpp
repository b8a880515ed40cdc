// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rules/rule_builder.h"

namespace transom {

// Heads of queries are those of keys times what shares them. Draws of dropout belong to places of the whole. Parts of
// the queries see what the whole would let them see: see leave_out_unseen_keys.
std::optional<FactorRule> rule_of_attention(const Node& node) {
  if (node.attributes.get_float("dropout") > 0) return std::nullopt;
  RuleBuilder rule(node);
  const Shape &q = rule.shape(0), &k = rule.shape(1), &v = rule.shape(2);
  const FactorRule::Kind of_queries = node.types.size() == 1 ? FactorRule::Kind::kFree : FactorRule::Kind::kSum;
  const bool hidden = node.attributes.get_int("causal") != 0 && q[1] > k[1];  // the first queries see nothing
  const int B = rule.factor(q[0]), G = rule.factor(k[2]), group = rule.factor(q[2] / k[2], of_queries),
            T = rule.factor(q[1], hidden ? FactorRule::Kind::kWhole : of_queries),
            S = rule.factor(k[1], FactorRule::Kind::kWhole), d = rule.factor(q[3], FactorRule::Kind::kWhole),
            e = rule.factor(v[3], FactorRule::Kind::kWhole);
  const FactorRule::Operand of_q = {{B}, {T}, {G, group}, {d}}, of_k = {{B}, {S}, {G}, {d}},
                            of_v = {{B}, {S}, {G}, {e}}, of_out = {{B}, {T}, {G, group}, {e}};
  rule.input(of_q);
  rule.input(of_k);
  rule.input(of_v);
  if (node.attributes.get_int("biased")) {
    const Shape& bias = rule.shape(3);
    FactorRule::Operand operand = {{B}, {G, group}, {T}, {S}};
    for (size_t i = 0; i < 4; ++i)
      if (bias[i] == 1) operand[i] = {rule.factor(1, FactorRule::Kind::kWhole)};
    rule.input(operand);
  }
  if (node.types.size() == 1) {
    rule.output(of_out);
  } else {
    rule.input(of_out);
    rule.output(of_q);
    rule.output(of_k);
    rule.output(of_v);
  }
  return rule.take();
}

// Queries are whole too: which keys they see is told by places in the whole.
std::optional<FactorRule> rule_of_ranged_attention(const Node& node) {
  if (node.attributes.get_float("dropout") > 0) return std::nullopt;
  RuleBuilder rule(node);
  const Shape &q = rule.shape(0), &k = rule.shape(1), &v = rule.shape(2);
  const bool forward = node.types.size() == 1;
  const auto whole = [&](int64_t extent) { return rule.factor(extent, FactorRule::Kind::kWhole); };
  const int B = rule.factor(q[0]), G = rule.factor(k[2]),
            group = rule.factor(q[2] / k[2], forward ? FactorRule::Kind::kFree : FactorRule::Kind::kSum),
            T = whole(q[1]), S = whole(k[1]), d = whole(q[3]), e = whole(v[3]);
  const FactorRule::Operand of_q = {{B}, {T}, {G, group}, {d}}, of_k = {{B}, {S}, {G}, {d}},
                            of_v = {{B}, {S}, {G}, {e}}, of_out = {{B}, {T}, {G, group}, {e}};
  rule.input(of_q);
  rule.input(of_k);
  rule.input(of_v);
  const bool biased = node.attributes.get_int("biased") != 0;
  if (biased) {
    const Shape& bias = rule.shape(3);
    FactorRule::Operand operand = {{B}, {G, group}, {T}, {S}};
    for (size_t i = 0; i < 4; ++i)
      if (bias[i] == 1) operand[i] = {whole(1)};
    rule.input(operand);
  }
  rule.input({{B}, {T}, {whole(2)}});
  if (forward) {
    rule.output(of_out);
    return rule.take();
  }
  rule.input(of_out);
  rule.output(of_q);
  rule.output(of_k);
  rule.output(of_v);
  return rule.take();
}

// Blocks of keys and values are whole, their heads are not.
std::optional<FactorRule> rule_of_paged_attention(const Node& node) {
  RuleBuilder rule(node);
  const Shape &q = rule.shape(0), &k = rule.shape(1), &v = rule.shape(2);
  const size_t heads = k.size() - 2;
  const int B = rule.factor(q[0]), G = rule.factor(k[heads]), group = rule.factor(q[2] / k[heads]),
            T = rule.factor(q[1], FactorRule::Kind::kWhole), d = rule.factor(q[3], FactorRule::Kind::kWhole),
            e = rule.factor(v.back(), FactorRule::Kind::kWhole);
  rule.input({{B}, {T}, {G, group}, {d}});
  for (const auto& [shape, width] : {std::pair(k, d), std::pair(v, e)}) {
    FactorRule::Operand blocks;
    for (size_t i = 0; i < heads; ++i) blocks.push_back({rule.factor(shape[i], FactorRule::Kind::kWhole)});
    blocks.push_back({G});
    blocks.push_back({width});
    rule.input(blocks);
  }
  rule.input({{B}, {rule.factor(rule.shape(3)[1], FactorRule::Kind::kWhole)}});
  rule.input({{B}});
  if (node.inputs.size() == 6) rule.input({{G, group}});  // sinks
  rule.output({{B}, {T}, {G, group}, {e}});
  return rule.take();
}

// As attention; queries are whole too.
std::optional<FactorRule> rule_of_sink_attention(const Node& node) {
  if (node.attributes.get_float("dropout") > 0) return std::nullopt;
  RuleBuilder rule(node);
  const Shape &q = rule.shape(0), &k = rule.shape(1), &v = rule.shape(2);
  const bool forward = node.types.size() == 1;
  const FactorRule::Kind added = forward ? FactorRule::Kind::kFree : FactorRule::Kind::kSum;
  const auto whole = [&](int64_t extent) { return rule.factor(extent, FactorRule::Kind::kWhole); };
  const int B = rule.factor(q[0], added), G = rule.factor(k[2]), group = rule.factor(q[2] / k[2], added),
            T = whole(q[1]), S = whole(k[1]), d = whole(q[3]), e = whole(v[3]);
  const FactorRule::Operand of_q = {{B}, {T}, {G, group}, {d}}, of_k = {{B}, {S}, {G}, {d}},
                            of_v = {{B}, {S}, {G}, {e}}, of_out = {{B}, {T}, {G, group}, {e}}, of_sinks = {{G, group}};
  rule.input(of_q);
  rule.input(of_k);
  rule.input(of_v);
  if (node.attributes.get_int("biased")) {
    const Shape& bias = rule.shape(3);
    FactorRule::Operand operand = {{B}, {G, group}, {T}, {S}};
    for (size_t i = 0; i < 4; ++i)
      if (bias[i] == 1) operand[i] = {whole(1)};
    rule.input(operand);
  }
  rule.input(of_sinks);
  if (forward) {
    rule.output(of_out);
    return rule.take();
  }
  rule.input(of_out);
  rule.output(of_q);
  rule.output(of_k);
  rule.output(of_v);
  rule.output(of_sinks);
  return rule.take();
}

std::optional<FactorRule> rule_of_rotary(const Node& node) {
  RuleBuilder rule(node);
  const FactorRule::Operand x = rule.factors_of(rule.shape(0), 3);
  rule.input(x);
  for (size_t i = 1; i < 3; ++i) {
    FactorRule::Operand angles = rule.whole(rule.shape(i));
    for (size_t d = 0; d < 3; ++d)
      if (rule.shape(i)[d] == rule.shape(0)[d] && rule.shape(0)[d] > 1) angles[d] = x[d];
    rule.input(angles);
  }
  rule.output(x);
  return rule.take();
}

}  // namespace transom
