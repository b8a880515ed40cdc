// SPDX-License-Identifier: Apache-2.0
// The one list of all operations.
#include <algorithm>
#include <unordered_map>

#include "ops/collectives.h"
#include "ops/rules.h"

namespace transom {

std::span<const Operation* const> all_operations() {
  static const OperationList operations = [] {
    OperationList all;
    for (const auto family :
         {leaf_operations,        identity_operations,      elementwise_operations, reduction_operations,
          ordering_operations,    movement_operations,      indexing_operations,    random_operations,
          contraction_operations, convolution_operations,   pooling_operations,     fusion_operations,
          activation_operations,  normalization_operations, rms_norm_operations,    rotary_operations,
          attention_operations,   quantization_operations,  loss_operations,        ctc_operations,
          optimizer_operations,   collective_operations}) {
      const OperationList members = family();
      all.insert(all.end(), members.begin(), members.end());
    }
    std::sort(all.begin(), all.end(), [](const Operation* a, const Operation* b) { return a->name < b->name; });
    return all;
  }();
  return operations;
}

const Operation& find_operation(std::string_view name) {
  static const std::unordered_map<std::string_view, const Operation*> by_name = [] {
    std::unordered_map<std::string_view, const Operation*> map;
    for (const Operation* operation : all_operations()) map.emplace(operation->name, operation);
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) {
    std::vector<std::string> names;
    for (const auto& [known, operation] : by_name) names.emplace_back(known);
    fail("unknown operation {}{}", quoted(name), did_you_mean(name, names));
  }
  return *found->second;
}

}  // namespace transom
