// SPDX-License-Identifier: Apache-2.0
// Nodes of the plugin interface as records of operations with their attributes and types: read for the reference
// device, and for what other devices have computed by the host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/ir/operation.h"
#include "transom/device_plugin.h"

namespace transom {

// Throws where the interface has no such element type.
Type type_of(const transom_value& value);

// A primitive with its attributes. Its float64 evaluation takes and gives dense bytes.
class PrimitiveNode {
 public:
  // Throws where there is no such primitive, an index is none of `values`, or the outputs have other types than its
  // rule gives.
  PrimitiveNode(const transom_node& node, std::span<const Type> values);

  const std::vector<size_t>& inputs() const { return inputs_; }  // indices of `values`
  const std::vector<size_t>& outputs() const { return outputs_; }

  // All inputs are read before an output is written, which may lie on them. Safe from all threads.
  void evaluate(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const;

 private:
  const Operation* operation_;
  Attributes attributes_;
  std::vector<size_t> inputs_, outputs_;
  std::vector<Type> input_types_, output_types_;
  std::string scope_;
};

// The host's functions of these names.
int evaluates_on_host(const char* op);
transom_status evaluate_on_host(const transom_node* node, const transom_value* values, size_t values_count,
                                const void* const* inputs, void* const* outputs, transom_error* error);

}  // namespace transom
