// SPDX-License-Identifier: Apache-2.0
// Sequence parallel beside tensor parallel (Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022): what the forward pass would sum over tp is summed into stretches of sequences instead, of shape
// [batch, places, ...], one for each process, and so is all that is computed of it (norms, dropout, residuals), until a
// product with weights that are cut along tp needs the whole. That is gathered for each pass anew. Which values these
// are follows from placements alone.
#pragma once

#include <vector>

#include "models/sharding/rewrite/sharded_forms.h"
#include "models/sharding/rules/factor_rules.h"

namespace transom {

class SequenceStretches {
 public:
  explicit SequenceStretches(ShardedForms& forms) : forms_(forms) {}

  // Before the first node. Until then, and on meshes without tp, nothing is cut and the calls below change nothing.
  void begin();
  bool on() const { return on_; }

  // Inputs of a product as it needs them.
  void gather(const Node& node, const FactorRule& rule, std::vector<ShardedValue>& inputs);
  // The form without tp, where tp cuts the places of a sequence.
  ShardedValue with_all_places(const Tensor& tensor, const ShardedValue& value);
  // What a product had whole is not kept for the next phase, which gathers it again.
  void forget_gathered();

 private:
  // A result of which a sum over tp is owed, as it is kept.
  ShardedValue into_stretches(ShardedValue value);

  ShardedForms& forms_;
  bool on_ = false;
};

}  // namespace transom
