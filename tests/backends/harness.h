// SPDX-License-Identifier: Apache-2.0
// Drives a plugin through its C header alone: build a graph, run it on float64 data, read float64 back. Expected values
// are plain loops in the tests.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "transom/device_plugin.h"

namespace transom::backend_test {

using Shape = std::vector<int64_t>;

// A plugin of the build tree with its device 0 opened.
class Plugin {
 public:
  // `threads`: into how many parts it may cut its work; 0: as many as compute. The last one opened counts for all.
  explicit Plugin(const std::string& name, size_t threads = 0);
  ~Plugin();
  static Plugin& cpu();  // one for all tests

  transom_plugin table{};
  transom_device* device = nullptr;
  transom_stream* stream = nullptr;

 private:
  void* library_ = nullptr;
};

// Values of any element type, as float64. i64 beyond 2^53 is not meant to be tested with it.
struct Tensor {
  transom_dtype dtype;
  Shape shape;
  std::vector<double> values;

  int64_t count() const;
};

Tensor tensor(transom_dtype dtype, Shape shape, std::vector<double> values);
// Different numbers in [low, high], the same at every run, rounded to the element type.
Tensor numbers(transom_dtype dtype, Shape shape, double low = -2, double high = 2, uint64_t seed = 1);

size_t element_size(transom_dtype dtype);
double rounded(transom_dtype dtype, double value);  // to the element type
void encode(const Tensor& tensor, void* bytes);
Tensor decode(transom_dtype dtype, Shape shape, const void* bytes);

// How far two tensors differ: largest |x - y| / (|y| + scale); infinity if a NaN or infinity stands on one side only.
double difference(const Tensor& found, const std::vector<double>& expected, double scale = 1);

struct Attribute {
  Attribute(const char* name, int64_t value) : name(name), kind(TRANSOM_ATTRIBUTE_INT), integer(value) {}
  Attribute(const char* name, int value) : Attribute(name, static_cast<int64_t>(value)) {}
  Attribute(const char* name, transom_dtype value) : Attribute(name, static_cast<int64_t>(value)) {}
  Attribute(const char* name, double value) : name(name), kind(TRANSOM_ATTRIBUTE_FLOAT), number(value) {}
  Attribute(const char* name, Shape value) : name(name), kind(TRANSOM_ATTRIBUTE_INTS), list(std::move(value)) {}
  Attribute(const char* name, std::string value) : name(name), kind(TRANSOM_ATTRIBUTE_STRING), text(std::move(value)) {}
  std::string name;
  transom_attribute_kind kind;
  int64_t integer = 0;
  double number = 0;
  Shape list;
  std::string text;
};

// A graph under construction. Values are named by number.
class Graph {
 public:
  int input(transom_dtype dtype, Shape shape, bool frozen = false);
  int input(const Tensor& like, bool frozen = false) { return input(like.dtype, like.shape, frozen); }
  // One output.
  int node(const char* op, std::vector<int> inputs, transom_dtype dtype, Shape shape,
           std::vector<Attribute> attributes = {});
  std::vector<int> nodes(const char* op, std::vector<int> inputs, std::vector<std::pair<transom_dtype, Shape>> outputs,
                         std::vector<Attribute> attributes = {});
  // A node whose region is another graph with its outputs marked.
  std::vector<int> region(const char* op, std::vector<int> inputs, const Graph& region);
  std::vector<int> fusion(std::vector<int> inputs, const Graph& inner) {
    return region("fusion", std::move(inputs), inner);
  }
  void output(int value);

  const transom_graph* view() const;
  const std::vector<int32_t>& outputs() const { return outputs_; }
  Tensor type_of(int value) const;

 private:
  struct Value {
    transom_dtype dtype;
    Shape shape;
    uint64_t flags;
  };
  struct NodeData {
    std::string op;
    std::vector<int32_t> inputs, outputs;
    std::vector<Attribute> attributes;
    const Graph* region;
  };
  std::deque<Value> values_;
  std::deque<NodeData> nodes_;
  std::vector<int32_t> inputs_, outputs_;

  // The C form, rebuilt by view().
  mutable std::vector<transom_value> c_values_;
  mutable std::vector<transom_node> c_nodes_;
  mutable std::vector<std::vector<transom_attribute>> c_attributes_;
  mutable transom_graph c_graph_{};
};

// A compiled graph.
class Program {
 public:
  Program(Plugin& plugin, const Graph& graph);
  ~Program();
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);
  // Inputs as buffers that live on, as weights do.
  std::vector<Tensor> run_buffers(const std::vector<transom_binding>& inputs);
  // Runs with output i bound to the buffer of input donated[i] (or its own for -1).
  std::vector<Tensor> run_donated(const std::vector<Tensor>& inputs, const std::vector<int>& donated);
  // The shortest of the runs that fit into `budget` seconds, at least three.
  double seconds(const std::vector<Tensor>& inputs, double budget);
  double seconds(const std::vector<transom_binding>& inputs, double budget);
  std::string describe() const;
  std::string error;  // of the last failed step; empty if all went well
  bool compiled() const { return executable_ != nullptr; }

 private:
  Plugin& plugin_;
  const Graph& graph_;
  transom_executable* executable_ = nullptr;
};

// Runs one node with the given inputs.
std::vector<Tensor> evaluate(const char* op, const std::vector<Tensor>& inputs,
                             std::vector<std::pair<transom_dtype, Shape>> outputs,
                             std::vector<Attribute> attributes = {});
Tensor evaluate(const char* op, const std::vector<Tensor>& inputs, transom_dtype dtype, Shape shape,
                std::vector<Attribute> attributes = {});
// The message of an operation that must fail, at compilation or at run time.
std::string failure_of(const char* op, const std::vector<Tensor>& inputs, transom_dtype dtype, Shape shape,
                       std::vector<Attribute> attributes = {});

// Rounding of one operation in this type, with some room for polynomials.
double tolerance(transom_dtype dtype);

inline const std::vector<transom_dtype> kFloats = {TRANSOM_FLOAT16, TRANSOM_BFLOAT16, TRANSOM_FLOAT32, TRANSOM_FLOAT64};
inline const std::vector<transom_dtype> kIntegers = {TRANSOM_UINT8, TRANSOM_INT8, TRANSOM_INT32, TRANSOM_INT64,
                                                     TRANSOM_UINT32};

}  // namespace transom::backend_test
