// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX as functions over tensors. Each file of a family ends with its records; a new file needs
// nothing else. docs/onnx.md has the list.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/import/run/value.h"
#include "models/onnx/proto/model.h"
#include "transom/ops.h"

namespace transom::onnx {

class GraphRun;

// The newest version of the operator set ai.onnx whose meaning is known here.
constexpr int64_t kNewestOpset = 28;

using Results = std::vector<Value>;

// One node with the values of its inputs: what an operator's function sees. Its checks name the file, the node, the
// operator, its domain and version.
class Call {
 public:
  Call(GraphRun& run, const Node& node, std::string_view op_type, std::string_view domain, int64_t version,
       std::vector<Value> inputs)
      : run_(run), node_(node), op_type_(op_type), domain_(domain), version_(version), inputs_(std::move(inputs)) {}

  const Node& node() const { return node_; }
  GraphRun& run() const { return run_; }
  const Computing& computing() const;           // of the pass
  int64_t version() const { return version_; }  // of the operator set that the file asks for
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  bool wants(size_t output) const { return output < outputs() && !node_.outputs[output].empty(); }

  bool has(size_t input) const { return input < inputs_.size() && !inputs_[input].empty(); }
  const Value& value(size_t input) const;    // refuses an input that is left out
  const Tensor& tensor(size_t input) const;  // refuses what is no tensor
  const Shape& shape(size_t input) const { return tensor(input).shape(); }
  ElementType type(size_t input) const;
  // The values of an input now: shapes, axes. Throws DependsOnArguments where they are not known yet.
  std::vector<int64_t> integers(size_t input) const;
  std::vector<double> numbers(size_t input) const;
  std::vector<int64_t> integers_of(const Tensor& tensor) const;
  int64_t integer_of(const Tensor& tensor) const;  // of a tensor of one element
  double number_of(const Tensor& tensor) const;    // of a tensor of one element

  const Attribute* attribute(std::string_view name) const;  // null where the node has none of this name
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t integer(std::string_view name) const;  // refuses a node without it
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> numbers(std::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view name) const;
  const Graph& graph(std::string_view name) const;

  // A value of the type of an input, brought back into its range where the carrier is wider.
  Value like(size_t input, const Tensor& tensor) const;

  // An axis counted from the front; refuses one outside of [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axes(const std::vector<int64_t>& axes, int64_t rank) const;

  std::string where() const;  // "model.onnx: node 'x': operator Add of ai.onnx, version 14"
  // One line: the operator is known, but not in this form.
  [[noreturn]] void not_supported(const std::string& what) const;
  // One line: the file breaks a rule of the operator.
  [[noreturn]] void invalid(const std::string& what) const;
  void require(bool condition, std::string_view what) const {
    if (!condition) [[unlikely]]
      invalid(std::string(what));
  }

 private:
  const Attribute* typed(std::string_view name, AttributeType type) const;
  GraphRun& run_;
  const Node& node_;
  std::string_view op_type_, domain_;
  int64_t version_;
  std::vector<Value> inputs_;
};

// One operator, in the versions [first, last] of its domain's operator set.
struct OperatorRecord {
  std::string_view name;
  Results (*run)(Call&);
  int64_t first = 1, last = kNewestOpset;
  std::string_view domain = "";
};

// Adds a file's records.
struct RegisterOperators {
  RegisterOperators(std::initializer_list<OperatorRecord> records);
};

// Null where there is none.
const OperatorRecord* find_operator(std::string_view domain, std::string_view name, int64_t version);
// All of them, by domain and name.
std::vector<OperatorRecord> all_operators();

}  // namespace transom::onnx
