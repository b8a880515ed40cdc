// SPDX-License-Identifier: Apache-2.0
// From operations of a traced graph to nodes of ONNX, one function an operation.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/ir/operation.h"
#include "models/onnx/export/graph_builder.h"

namespace transom::onnx {

// A tensor of the trace: a value of the file that broadcasts to the tensor's shape. What ONNX broadcasts anyway is not
// spelt out.
struct Operand {
  ValueId value;
  Extents shape;
};

// What a lowering function sees of its node.
class Lowering {
 public:
  Lowering(const Traces& traces, GraphBuilder& builder, const TensorMap<Operand>& operands, size_t index)
      : builder(builder), traces_(traces), operands_(operands), index_(index) {}

  GraphBuilder& builder;

  const transom::Node& node() const { return *traces_.graph().nodes[index_]; }
  const Operand& operand(size_t input) const { return operands_.at(node().inputs[input]); }
  // The input with its whole shape.
  ValueId value(size_t input) const {
    const Operand& from = operand(input);
    return builder.expand(from.value, from.shape);
  }
  const Extents& shape(size_t input) const { return operand(input).shape; }
  DType dtype(size_t input = 0) const { return node().inputs[input].dtype(); }
  ValueType type(size_t output = 0) const {
    return {node().types[output].dtype,
            traces_.shape_of(Tensor(traces_.graph().nodes[index_], static_cast<int>(output)))};
  }

  Extents extents(std::string_view name) const { return traces_.ints(index_, name); }
  Extent extent(std::string_view name) const { return traces_.integer(index_, name); }
  std::vector<double> real(std::string_view name) const { return traces_.real(index_, name); }
  // An attribute that must be the same in all traces.
  std::vector<int64_t> ints(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const { return node().attributes.get_float(name); }

 private:
  const Traces& traces_;
  const TensorMap<Operand>& operands_;
  size_t index_;
};

using LoweringFunction = std::vector<Operand> (*)(const Lowering&);
struct LoweringEntry {
  std::string_view operation;
  LoweringFunction lower;
};

// The tables of the files lower_*.cpp.
std::span<const LoweringEntry> elementwise_lowerings();
std::span<const LoweringEntry> movement_lowerings();
std::span<const LoweringEntry> product_lowerings();
std::span<const LoweringEntry> composite_lowerings();
std::span<const LoweringEntry> recurrence_lowerings();

// "encoder.layer.3: ", or nothing.
std::string scope_prefix_of(const transom::Node& node);
// Null where the operation has no form in ONNX.
LoweringFunction find_lowering(std::string_view operation);
// Whether a composite stays whole in a file of this opset.
bool stays_whole(const transom::Node& node, int64_t opset);

// ---- of several files
inline Operand whole(ValueId value, const ValueType& type) { return {value, type.shape}; }
Extents broadcast_shape(const Extents& x, const Extents& y);
Extent product_of(const Extents& extents);

}  // namespace transom::onnx
