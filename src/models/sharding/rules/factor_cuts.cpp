// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/rules/factor_cuts.h"

#include <algorithm>

namespace transom {
namespace {

int64_t extent_of(const FactorRule& rule, int factor) { return rule.factors[static_cast<size_t>(factor)].extent; }

// What stands joined has no other cut.
bool is_alone_where_joined(const Placement& placement) {
  return std::all_of(placement.dimensions.begin(), placement.dimensions.end(), [](const Cuts& cuts) {
    return cuts.size() <= 1 || std::all_of(cuts.begin(), cuts.end(), [](const Cut& cut) { return cut.joined.empty(); });
  });
}

MeshAxes axes_of(const Cuts& cuts) {
  MeshAxes axes;
  for (const Cut& cut : cuts)
    for (const MeshAxis axis : cut.axes) axes.add(axis);
  return axes;
}

double bytes_of_part(const ProcessMesh& mesh, const Type& type, const Placement& placement) {
  return static_cast<double>(elements(type.shape)) * static_cast<double>(size_of(type.dtype)) /
         static_cast<double>(mesh.size(placement.sharded()));
}

}  // namespace

std::optional<FactorCuts> cuts_of_factors(const ProcessMesh& mesh, const FactorRule& rule,
                                          const FactorRule::Operand& operand, const Placement& placement) {
  FactorCuts result(rule.factors.size());
  for (size_t d = 0; d < operand.size(); ++d)
    for (const Cut& cut : placement.dimensions[d]) {
      int64_t minor = 1;
      bool found = false;
      for (size_t f = operand[d].size(); f-- > 0 && !found;) {
        const int factor = operand[d][f];
        const int64_t extent = extent_of(rule, factor);
        const std::vector<CutUnits> parts = parts_of(cut);
        const bool divides =
            std::all_of(parts.begin(), parts.end(), [&](const CutUnits& part) { return part.inner % minor == 0; });
        if (divides && extent * minor % extent_of(cut) == 0) {
          if (rule.factors[static_cast<size_t>(factor)].kind == FactorRule::Kind::kWhole) return std::nullopt;
          result[static_cast<size_t>(factor)].push_back(divided(mesh, cut, minor));
          found = true;
        }
        minor *= extent;
      }
      if (!found) return std::nullopt;
    }
  return result;
}

Placement placement_of(const ProcessMesh& mesh, const FactorRule& rule, const FactorRule::Operand& operand,
                       const FactorCuts& cuts) {
  Placement placement = replicated(operand.size());
  for (size_t d = 0; d < operand.size(); ++d) {
    int64_t minor = 1;
    for (const int factor : operand[d]) minor *= extent_of(rule, factor);
    for (const int factor : operand[d]) {
      minor /= std::max<int64_t>(1, extent_of(rule, factor));
      for (const Cut& cut : cuts[static_cast<size_t>(factor)])
        placement.dimensions[d].push_back(multiplied(mesh, cut, minor));
    }
  }
  return placement;
}

MeshAxes summed_axes(const FactorRule& rule, const FactorRule::Operand& output, const FactorCuts& cuts) {
  MeshAxes axes;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const bool there = std::any_of(output.begin(), output.end(), [&](const FactorRule::Dimension& dimension) {
      return std::find(dimension.begin(), dimension.end(), static_cast<int>(f)) != dimension.end();
    });
    if (!there && rule.factors[f].kind == FactorRule::Kind::kSum) axes = axes | axes_of(cuts[f]);
  }
  return axes;
}

double bytes_moved(const ProcessMesh& mesh, const Type& type, const Placement& from, const Placement& to) {
  double part = bytes_of_part(mesh, type, from), moved = 0;
  for (const MeshAxis axis : kAllMeshAxes) {
    if (from.partial.has(axis) && !to.partial.has(axis)) moved += (to.sharded().has(axis) ? 1 : 2) * part;
    if (!from.sharded().has(axis)) continue;
    bool stays = false;
    for (size_t d = 0; d < from.dimensions.size(); ++d)
      stays |= axes_of(from.dimensions[d]).has(axis) && axes_of(to.dimensions[d]).has(axis) &&
               (from.dimensions[d] == to.dimensions[d] || from.dimensions[d].size() == 1);
    if (stays) continue;
    if (!to.sharded().has(axis)) part *= static_cast<double>(mesh.size(axis));
    moved += part;
  }
  return moved;
}

FactorCuts choose_cuts(const ProcessMesh& mesh, const FactorRule& rule, const std::vector<OperandValue>& inputs,
                       const std::vector<Type>& outputs, bool is_product) {
  // What inputs are cut into already, by factor.
  struct Candidate {
    size_t factor;
    Cuts cuts;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = cuts_of_factors(mesh, rule, rule.inputs[i], inputs[i].placement);
    if (!found) continue;
    for (size_t f = 0; f < found->size(); ++f) {
      if ((*found)[f].empty()) continue;
      const bool known = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.factor == f && candidate.cuts == (*found)[f];
      });
      if (!known && candidates.size() < 8) candidates.push_back({f, (*found)[f]});
    }
  }
  // A product does more with each byte than it takes to move it.
  const double work_per_byte = is_product ? 16 : 0.5;
  double work = 0;
  for (const OperandValue& input : inputs)
    work += static_cast<double>(elements(input.type.shape)) * static_cast<double>(size_of(input.type.dtype));
  for (const Type& output : outputs)
    work += static_cast<double>(elements(output.shape)) * static_cast<double>(size_of(output.dtype));
  FactorCuts best(rule.factors.size());
  double lowest = -1;
  for (size_t chosen = (size_t{1} << candidates.size()); chosen-- > 0;) {
    FactorCuts cuts(rule.factors.size());
    MeshAxes used;
    bool valid = true;
    for (size_t c = 0; c < candidates.size() && valid; ++c) {
      if (!(chosen >> c & 1U)) continue;
      const MeshAxes axes = axes_of(candidates[c].cuts);
      valid = (used & axes).empty() && cuts[candidates[c].factor].empty();
      used = used | axes;
      cuts[candidates[c].factor] = candidates[c].cuts;
    }
    if (!valid) continue;
    double cost = work * work_per_byte / static_cast<double>(mesh.size(used));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Placement placement = placement_of(mesh, rule, rule.inputs[i], cuts);
      valid = valid && is_alone_where_joined(placement);
      cost += bytes_moved(mesh, inputs[i].type, inputs[i].placement, placement);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Placement placement = placement_of(mesh, rule, rule.outputs[i], cuts);
      valid = valid && is_alone_where_joined(placement);
      if (!summed_axes(rule, rule.outputs[i], cuts).empty()) cost += 2 * bytes_of_part(mesh, outputs[i], placement);
    }
    if (valid && (lowest < 0 || cost < lowest)) lowest = cost, best = std::move(cuts);
  }
  return best;
}

}  // namespace transom
