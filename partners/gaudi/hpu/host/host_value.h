// SPDX-License-Identifier: Apache-2.0
// What runs between two recipes because no kernel does it: single nodes, which the host of this plugin computes.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "hpu/lowering/node.h"

namespace transom::hpu {

// A tensor in host memory, dense.
struct HostValue {
  Type type;
  std::vector<std::byte> bytes;

  explicit HostValue(Type t) : type(std::move(t)), bytes(type.bytes()) {}
};

// Whether `evaluate` knows the operation: the primitives of the host, and "dropout_mask".
bool host_knows(std::string_view op);

// The outputs of a node. Throws Failure where the host refuses it.
std::vector<HostValue> evaluate(const Node& node, const std::vector<const HostValue*>& inputs);

// Whole numbers of 32 bits as 64, and back; the way back throws Failure(TRANSOM_UNSUPPORTED) where one does not fit.
HostValue widened(const HostValue& narrow);
HostValue narrowed(const HostValue& wide);

}  // namespace transom::hpu
