// SPDX-License-Identifier: Apache-2.0
// The operators of the domain com.microsoft, which ONNX Runtime's optimizer and the exporters around it write
// (docs/ContribOperators.md of ONNX Runtime defines them). An attribute that an operator here does not know is refused.
#pragma once

#include <initializer_list>
#include <string_view>

#include "models/onnx/import/run/operators.h"

namespace transom::onnx {

constexpr std::string_view kMicrosoft = "com.microsoft";

inline OperatorRecord contrib(std::string_view name, Results (*run)(Call&)) {
  return {name, run, 1, kNewestOpset, kMicrosoft};
}

// Refuses a node with any other attribute, by its name.
void only_attributes(const Call& call, std::initializer_list<std::string_view> known);
// Refuses a node that has this attribute with another value.
void only_value(const Call& call, std::string_view attribute, int64_t value);

// What the standard's operator of this name and version gives for the node's attributes and these inputs.
Results standard(Call& call, std::string_view name, int64_t version, std::vector<Value> inputs);

}  // namespace transom::onnx
