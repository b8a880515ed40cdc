// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/merge_decoders.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"

namespace transom::onnx {
namespace {

constexpr const char* kUseCache = "use_cache_branch";

bool same_tensors(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
         (a.bytes.data() == b.bytes.data() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

// A graph as a branch: names that it makes get a prefix, those of inputs and weights lie outside of it.
class Branch {
 public:
  Branch(const WrittenModel& graph, std::string prefix, WrittenModel& whole) : prefix_(std::move(prefix)) {
    for (const WrittenValue& input : graph.inputs) outside_[input.name] = input.name;
    for (const auto& [name, view] : graph.initializers) outside_[name] = shared_name(name, view, whole);
    branch_.name = prefix_;
    for (WrittenNode node : graph.nodes) {
      node.name = prefix_ + "/" + node.name;
      for (std::string& input : node.inputs) input = name_of(input);
      for (std::string& output : node.outputs) output = name_of(output);
      branch_.nodes.push_back(std::move(node));
    }
    for (const WrittenValue& output : graph.outputs) values_[output.name] = output;
  }

  // Its outputs in the order of `outputs`; what it does not make is an input that comes back.
  std::shared_ptr<const WrittenModel> finish(const std::vector<WrittenValue>& outputs) {
    for (const WrittenValue& wanted : outputs) {
      const auto made = values_.find(wanted.name);
      WrittenValue output = made != values_.end() ? made->second : wanted;
      const std::string source =
          made != values_.end() ? name_of(wanted.name) : "past_key_values" + wanted.name.substr(std::strlen("present"));
      // A branch gives names of its own making.
      output.name = prefix_ + "/outputs/" + wanted.name;
      branch_.nodes.push_back({"Identity", output.name, {source}, {output.name}, {}, {}});
      branch_.outputs.push_back(std::move(output));
    }
    return std::make_shared<const WrittenModel>(std::move(branch_));
  }

 private:
  std::string name_of(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = outside_.find(name);
    return found != outside_.end() ? found->second : prefix_ + "/" + name;
  }
  // Weights of the same name and contents are one; a table of the same name and other contents gets the prefix.
  std::string shared_name(const std::string& name, const TensorView& view, WrittenModel& whole) const {
    for (const auto& [other, known] : whole.initializers)
      if (other == name) {
        if (same_tensors(known, view)) return name;
        whole.initializers.emplace_back(prefix_ + "/" + name, view);
        return prefix_ + "/" + name;
      }
    whole.initializers.emplace_back(name, view);
    return name;
  }

  std::string prefix_;
  std::map<std::string, std::string> outside_;
  std::map<std::string, WrittenValue> values_;
  WrittenModel branch_;
};

}  // namespace

WrittenModel merge_decoders(const WrittenModel& first, const WrittenModel& with_past) {
  WrittenModel whole{.opset = first.opset, .name = first.name};
  whole.metadata = first.metadata;
  std::set<std::string> names;
  for (const WrittenModel* model : {&first, &with_past})
    for (const WrittenValue& input : model->inputs)
      if (names.insert(input.name).second) whole.inputs.push_back(input);
  // Whoever begins a text gives pasts of length 1 that nobody reads, whatever the encoder's length is.
  for (WrittenValue& input : whole.inputs)
    if (input.name.starts_with("past_key_values.") && std::holds_alternative<int64_t>(input.shape.at(2)))
      input.shape[2] = "encoder_sequence_length_out";
  whole.inputs.push_back({kUseCache, DType::kBool, {int64_t{1}}});
  whole.outputs = first.outputs;
  for (WrittenValue& output : whole.outputs)  // each branch knows another length
    for (size_t axis = 1; axis < output.shape.size(); ++axis)
      if (output.name.find(".decoder.") != std::string::npos && axis == 2)
        output.shape[axis] = "present_sequence_length";
  WrittenNode choice{"If", "/merged", {kUseCache}, {}, {}, {}};
  Branch cached(with_past, "with_past", whole), uncached(first, "without_past", whole);
  choice.graphs = {{"then_branch", cached.finish(first.outputs)}, {"else_branch", uncached.finish(first.outputs)}};
  for (const WrittenValue& output : whole.outputs) choice.outputs.push_back(output.name);
  whole.nodes.push_back(std::move(choice));
  return whole;
}

}  // namespace transom::onnx
