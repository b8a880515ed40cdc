// SPDX-License-Identifier: Apache-2.0
// A model that is about to be written, with what changes to it ask for: who makes and who reads a value.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/onnx/proto/model.h"
#include "models/onnx/proto/write_model.h"

namespace transom::onnx {

class EditedGraph {
 public:
  explicit EditedGraph(WrittenModel model);

  WrittenModel& model() { return model_; }
  const WrittenModel& model() const { return model_; }
  WrittenNode* producer(const std::string& value);                // null: an input or an initializer
  std::vector<WrittenNode*> consumers(const std::string& value);  // once for each of its inputs that reads it
  // The node that alone reads the value; null where there are several, or the graph gives it as an output.
  WrittenNode* only_consumer(const std::string& value);
  bool is_output(const std::string& value) const;
  const TensorView* initializer(const std::string& name) const;  // null: there is none
  // Adds or replaces one.
  void set_initializer(const std::string& name, TensorView view);
  // Removes nodes and initializers that nothing reads.
  void remove_unread();
  // After changes of nodes that are not made through this class.
  void index();

 private:
  WrittenModel model_;
  std::unordered_map<std::string, size_t> made_by_;
  std::unordered_map<std::string, std::vector<size_t>> read_by_;
  std::unordered_map<std::string, size_t> initializers_;
};

// The same as a model that was read, which can be run. Its outputs are `outputs`, values of the graph.
Model as_read(const WrittenModel& model, const std::vector<std::string>& outputs);

// A dense f32 or i8 view of numbers.
TensorView view_of(std::vector<float> values, std::vector<int64_t> shape);
TensorView view_of(std::vector<int8_t> values, std::vector<int64_t> shape);
TensorView view_of(std::vector<int32_t> values, std::vector<int64_t> shape);
std::vector<float> floats_of(const TensorView& view);  // of an f32 one

}  // namespace transom::onnx
