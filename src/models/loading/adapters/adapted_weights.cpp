// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapted_weights.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json/json.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/records.h"

namespace transom {
namespace {

// [rows, columns] of a weight as the checkpoint has it; codes are always [out, in].
Shape shape_of_weight(const Parameter& weight) {
  if (!weight.packed) return weight.value.shape();
  const bool turned = weight.use == Parameter::Use::kTransposedLinear;
  return turned ? Shape{weight.packed->depth, weight.packed->rows} : Shape{weight.packed->rows, weight.packed->depth};
}

enum class ModuleKind { kLinear, kTable, kVector, kOther };

ModuleKind kind_of_module(const Model& model, const Parameter& weight, const std::string& module) {
  const size_t rank = shape_of_weight(weight).size();
  if (rank == 1) return ModuleKind::kVector;
  if (rank == 2 && (weight.use != Parameter::Use::kOther || is_last_layer(model, module))) return ModuleKind::kLinear;
  return rank == 2 && weight.is_table ? ModuleKind::kTable : ModuleKind::kOther;
}

// What the kind can change, in words.
std::string_view what_it_takes(const AdapterKind& kind) {
  if (kind.takes_vectors) return "norms";
  if (!kind.takes_linear) return "tables of vectors";
  return kind.takes_tables ? "linear layers or tables of vectors" : "linear layers";
}

[[noreturn]] void refuse_all(const AdapterConfig& config, const Model& model) {
  std::set<std::string> names;
  const AdapterKind& kind = config.kind();
  for (const auto* group : {&model.frozen(), &model.parameters()})
    for (const std::shared_ptr<Parameter>& weight : *group) {
      if (!weight->name.ends_with(".weight")) continue;
      const std::string module = module_of(weight->name);
      const ModuleKind found = kind_of_module(model, *weight, module);
      if ((found == ModuleKind::kLinear && kind.takes_linear && weight->use != Parameter::Use::kOther) ||
          (found == ModuleKind::kVector && kind.takes_vectors) ||
          (found == ModuleKind::kTable && kind.takes_tables && !kind.takes_linear))
        names.insert(module.substr(module.rfind('.') + 1));
    }
  fail("{}: target_modules: expected names of {}, of which there are {}; found {}", config.where(), what_it_takes(kind),
       fmt::join(names, ", "), dump_json(json_of(config.fields()).value("target_modules", Json())));
}

}  // namespace

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

bool is_last_layer(const Model& model, const std::string& module) {
  const FamilyHead& head = head_of(model);
  if (std::find(head.vocabulary->begin(), head.vocabulary->end(), module) != head.vocabulary->end()) return true;
  return has_named_classes(head) && module == head.modules->back();
}

std::vector<AdaptedWeight> adapted_weights(const AdapterConfig& config, const Model& model) {
  const AdapterKind& kind = config.kind();
  std::vector<AdaptedWeight> chosen;
  std::vector<std::string> others;  // modules of the right names that it cannot change
  for (const auto* group : {&model.frozen(), &model.parameters()})
    for (const std::shared_ptr<Parameter>& weight : *group) {
      const std::string module = module_of(weight->name);
      if (!weight->name.ends_with(".weight") || !config.targets(module, is_last_layer(model, module))) continue;
      const Shape shape = shape_of_weight(*weight);
      const ModuleKind found = kind_of_module(model, *weight, module);
      const bool linear = found == ModuleKind::kLinear && kind.takes_linear,
                 table = found == ModuleKind::kTable && kind.takes_tables && !config.targets_all(),
                 vector = found == ModuleKind::kVector && kind.takes_vectors;
      if (!linear && !table && !vector) {
        if (found != ModuleKind::kVector) others.push_back(module);
        continue;
      }
      const bool turned = weight->use == Parameter::Use::kTransposedLinear || table;
      chosen.push_back({weight, module, table, shape[turned || vector ? 0 : 1], shape[turned && !vector ? 1 : 0]});
    }
  if (!others.empty() && !config.targets_all())
    fail("{}: target_modules: {} is none of the {} that can have adapters", config.where(), transom::quoted(others[0]),
         what_it_takes(kind));
  if (chosen.empty()) refuse_all(config, model);
  return chosen;
}

}  // namespace transom
