// SPDX-License-Identifier: Apache-2.0
// Writes a FactorRule down (see factor_rules.h), and the rules that stand in files of their own.
#pragma once

#include <utility>

#include "models/sharding/rules/factor_rules.h"

namespace transom {

class RuleBuilder {
 public:
  using Kind = FactorRule::Kind;
  using Operand = FactorRule::Operand;

  explicit RuleBuilder(const Node& node) : node_(node) {}

  int factor(int64_t extent, Kind kind = Kind::kFree) {
    rule_.factors.push_back({extent, kind});
    return static_cast<int>(rule_.factors.size()) - 1;
  }
  // A factor for each dimension, those from `whole` on whole.
  Operand factors_of(const Shape& shape, int64_t whole = INT64_MAX) {
    Operand operand;
    for (size_t d = 0; d < shape.size(); ++d)
      operand.push_back({factor(shape[d], static_cast<int64_t>(d) < whole ? Kind::kFree : Kind::kWhole)});
    return operand;
  }
  Operand whole(const Shape& shape) { return factors_of(shape, 0); }
  const Shape& shape(size_t input) const { return node_.inputs[input].shape(); }
  size_t rank(size_t input) const { return shape(input).size(); }
  void input(Operand operand) { rule_.inputs.push_back(std::move(operand)); }
  void output(Operand operand) { rule_.outputs.push_back(std::move(operand)); }
  void added_once(size_t input) { rule_.added_once.push_back(input); }
  FactorRule take() { return std::move(rule_); }

 private:
  const Node& node_;
  FactorRule rule_;
};

// Of attention and what belongs to it (attention_rules.cpp).
std::optional<FactorRule> rule_of_attention(const Node& node);
std::optional<FactorRule> rule_of_paged_attention(const Node& node);
std::optional<FactorRule> rule_of_ranged_attention(const Node& node);
std::optional<FactorRule> rule_of_sink_attention(const Node& node);
std::optional<FactorRule> rule_of_rotary(const Node& node);

}  // namespace transom
