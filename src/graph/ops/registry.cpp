// SPDX-License-Identifier: Apache-2.0
// All operations: each file of records adds its own.
#include <algorithm>
#include <unordered_map>

#include "graph/ops/rules.h"

namespace transom {

namespace {

// Filled before main() by the files of records; a function, since they come in any order.
std::vector<const Operation*>& registered() {
  static std::vector<const Operation*> operations;
  return operations;
}

}  // namespace

void RegisterOperations::add(const Operation* record) { registered().push_back(record); }

std::span<const Operation* const> all_operations() {
  static const std::vector<const Operation*> operations = [] {
    std::vector<const Operation*> all = registered();
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
