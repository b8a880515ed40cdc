// SPDX-License-Identifier: Apache-2.0
// Between cuts of dimensions and cuts of the factors that the dimensions are made of (see factor_rules.h), and which
// cuts of its factors an operation is best given.
#pragma once

#include <optional>
#include <vector>

#include "models/sharding/placement.h"
#include "models/sharding/rules/factor_rules.h"

namespace transom {

using FactorCuts = std::vector<Cuts>;  // by factor; relative to the factor's own extent

// The cuts of the factors of an operand under this placement; none, where a border falls within units of a factor.
// Cuts of factors that must stay whole count as such borders.
std::optional<FactorCuts> cuts_of_factors(const ProcessMesh& mesh, const FactorRule& rule,
                                          const FactorRule::Operand& operand, const Placement& placement);
// The placement of an operand whose factors are cut so.
Placement placement_of(const ProcessMesh& mesh, const FactorRule& rule, const FactorRule::Operand& operand,
                       const FactorCuts& cuts);
// The axes over which an output is a sum, its factors being cut so.
MeshAxes summed_axes(const FactorRule& rule, const FactorRule::Operand& output, const FactorCuts& cuts);

struct OperandValue {
  Type type;
  Placement placement;  // not partial
};
// The cuts that move the fewest bytes, counting what more work costs.
FactorCuts choose_cuts(const ProcessMesh& mesh, const FactorRule& rule, const std::vector<OperandValue>& inputs,
                       const std::vector<Type>& outputs, bool is_product);

// Bytes that a process sends, about, to bring a value from one placement to the other.
double bytes_moved(const ProcessMesh& mesh, const Type& type, const Placement& from, const Placement& to);

}  // namespace transom
