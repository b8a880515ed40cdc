// SPDX-License-Identifier: Apache-2.0
// Nodes of an ONNX graph as they are emitted: equal ones are made once, and extents that only a run knows are computed
// from those of its inputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/onnx/export/traces.h"
#include "models/onnx/proto/write_model.h"

namespace transom::onnx {

// A value of the graph; kAbsent: an optional input that is not given.
using ValueId = int;
inline constexpr ValueId kAbsent = -1;

struct ValueType {
  DType dtype;
  Extents shape;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(int64_t opset) : opset_(opset) {}

  int64_t opset() const { return opset_; }
  const ValueType& type(ValueId value) const { return values_[static_cast<size_t>(value)].type; }
  const Extents& shape(ValueId value) const { return type(value).shape; }
  // Names of the modules that nodes from here on belong to.
  void set_scope(const std::string& scope) { scope_ = scope; }

  ValueId input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes);
  // An input that a caller may leave out: all its elements are then 1.
  ValueId optional_input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes);
  ValueId initializer(const std::string& name, const TensorView& view);
  bool is_initializer(ValueId value) const { return values_[static_cast<size_t>(value)].initializer >= 0; }
  const TensorView& view_of(ValueId initializer) const;
  const std::string& name_of(ValueId value) const { return values_[static_cast<size_t>(value)].name; }
  ValueId ints(const std::vector<int64_t>& values);  // i64 [n]
  ValueId scalar(double value, DType dtype);         // []
  ValueId node(const std::string& operation, const std::vector<ValueId>& inputs, const ValueType& type,
               const WrittenAttributes& attributes = {});
  std::vector<ValueId> nodes(const std::string& operation, const std::vector<ValueId>& inputs,
                             const std::vector<ValueType>& types, const WrittenAttributes& attributes = {},
                             const WrittenGraphs& graphs = {});
  void output(const std::string& name, ValueId value, DType dtype);

  // i64 [1] with this number, and i64 [n] with these. Errors: no form of the inputs' extents gives it.
  ValueId extent(const Extent& extent);
  ValueId extents(const Extents& extents);

  // ---- moves, as short as they can be said
  ValueId reshape(ValueId value, const Extents& shape);
  ValueId transpose(ValueId value, const std::vector<int64_t>& permutation);
  ValueId expand(ValueId value, const Extents& shape);
  ValueId cast(ValueId value, DType dtype);

  // What was made, without the initializers and nodes that nobody reads. The builder is used up.
  WrittenModel finish(const std::string& name);

 private:
  struct Made {
    std::string name;
    ValueType type;
    int node = -1, initializer = -1;  // what it is of
  };
  struct Node {
    std::string operation, scope;
    std::vector<ValueId> inputs, outputs;
    WrittenAttributes attributes;
    WrittenGraphs graphs = {};
  };
  struct Source {
    ValueId value;
    int64_t axis;
  };
  ValueId add(Made made);
  void declare_input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes);
  void turn_weights(std::vector<bool>& kept);
  void remember_extents(ValueId value);
  ValueId try_extent(const Extent& extent, int depth);
  ValueId from_source(const Source& source);
  std::string name_of_extent(const Extent& extent) const;

  int64_t opset_;
  std::string scope_;
  std::vector<Made> values_;
  std::vector<Node> nodes_;
  NamedViews initializers_;
  std::vector<WrittenValue> inputs_;
  std::vector<std::pair<WrittenValue, ValueId>> outputs_;
  std::map<std::string, ValueId> known_;            // constants, and nodes by all that they are
  std::vector<std::pair<Extent, Source>> sources_;  // where each extent was seen first
  std::map<Extent, size_t> source_of_;
  std::map<Extent, ValueId> extents_;
  std::map<Extent, std::string> axis_names_;
};

}  // namespace transom::onnx
