// SPDX-License-Identifier: Apache-2.0
#include "models/compression/vocabulary_heads.h"

#include <algorithm>

#include "models/records.h"

namespace transom {
namespace {

// A linear layer of its own gets codes as all others do, or is named as one that fits none.
bool is_plain_layer(const Model& model, const std::string& module) {
  for (const auto* group : {&model.parameters(), &model.frozen()})
    for (const std::shared_ptr<Parameter>& parameter : *group)
      if (parameter->name == module + ".weight" && parameter->use != Parameter::Use::kOther) return true;
  return false;
}

}  // namespace

void ignore_vocabulary_heads(const Model& model, std::vector<std::string>& ignored) {
  for (const std::string& head : *head_of(model).vocabulary)
    if (!is_plain_layer(model, head) && std::find(ignored.begin(), ignored.end(), head) == ignored.end())
      ignored.push_back(head);
}

}  // namespace transom
