// SPDX-License-Identifier: Apache-2.0
// Nodes of an ONNX graph as they are emitted: equal ones are made once, and extents that only a run knows are computed
// from those of its inputs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "onnx/export/traces.h"
#include "onnx/proto/write_model.h"

namespace transom::onnx {

// A value of the graph; kAbsent: an optional input that is not given.
using Value = int;
inline constexpr Value kAbsent = -1;

struct ValueType {
  DType dtype;
  Extents shape;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(int64_t opset) : opset_(opset) {}

  int64_t opset() const { return opset_; }
  const ValueType& type(Value value) const { return values_[static_cast<size_t>(value)].type; }
  const Extents& shape(Value value) const { return type(value).shape; }
  // Names of the modules that nodes from here on belong to.
  void set_scope(const std::string& scope) { scope_ = scope; }

  Value input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes);
  Value initializer(const std::string& name, const TensorView& view);
  bool is_initializer(Value value) const { return values_[static_cast<size_t>(value)].initializer >= 0; }
  const TensorView& view_of(Value initializer) const;
  const std::string& name_of(Value value) const { return values_[static_cast<size_t>(value)].name; }
  Value ints(const std::vector<int64_t>& values);  // i64 [n]
  Value scalar(double value, DType dtype);         // []
  Value node(const std::string& operation, const std::vector<Value>& inputs, const ValueType& type,
             const WrittenAttributes& attributes = {});
  std::vector<Value> nodes(const std::string& operation, const std::vector<Value>& inputs,
                           const std::vector<ValueType>& types, const WrittenAttributes& attributes = {});
  void output(const std::string& name, Value value, DType dtype);

  // i64 [1] with this number, and i64 [n] with these. Errors: no form of the inputs' extents gives it.
  Value extent(const Extent& extent);
  Value extents(const Extents& extents);

  // ---- moves, as short as they can be said
  Value reshape(Value value, const Extents& shape);
  Value transpose(Value value, const std::vector<int64_t>& permutation);
  Value expand(Value value, const Extents& shape);
  Value cast(Value value, DType dtype);

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
    std::vector<Value> inputs, outputs;
    WrittenAttributes attributes;
  };
  struct Source {
    Value value;
    int64_t axis;
  };
  Value add(Made made);
  void turn_weights(std::vector<bool>& kept);
  void remember_extents(Value value);
  Value try_extent(const Extent& extent, int depth);
  Value from_source(const Source& source);
  std::string name_of_extent(const Extent& extent) const;

  int64_t opset_;
  std::string scope_;
  std::vector<Made> values_;
  std::vector<Node> nodes_;
  NamedViews initializers_;
  std::vector<WrittenValue> inputs_;
  std::vector<std::pair<WrittenValue, Value>> outputs_;
  std::map<std::string, Value> known_;              // constants, and nodes by all that they are
  std::vector<std::pair<Extent, Source>> sources_;  // where each extent was seen first
  std::map<Extent, size_t> source_of_;
  std::map<Extent, Value> extents_;
  std::map<Extent, std::string> axis_names_;
};

}  // namespace transom::onnx
