// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. Conditions are known when the graph is traced, or the graph is computed step by step; loops are
// unrolled.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {
namespace {

constexpr int64_t kMostIterations = 100'000;

Results if_operator(Call& call) {
  const bool condition = call.integer_of(call.tensor(0)) != 0;
  return call.run().run_body(call, call.graph(condition ? "then_branch" : "else_branch"), {});
}

// Values that a body gives in each iteration, one behind the other along a new axis.
Value stacked(const Call& call, const std::vector<Value>& values, int64_t axis) {
  std::vector<Tensor> parts;
  for (const Value& value : values) {
    if (!value.is_tensor()) call.not_supported("scan outputs that are no tensors");
    parts.push_back(unsqueeze(value.tensor, axis));
  }
  return {values[0].type, concatenate(parts, axis)};
}

// What a body that never runs would give: [0, ...]. Extents that the file does not declare are those of a first
// iteration with `inputs`, which is traced and thrown away.
std::vector<Value> stacks_of_nothing(const Call& call, const Graph& body, size_t first, std::vector<Value> inputs,
                                     const std::vector<int64_t>& axes) {
  std::vector<Value> traced, stacks;
  for (size_t j = first; j < body.outputs.size(); ++j) {
    const ValueInfo& declared = body.outputs[j];
    ElementType type = declared.type;
    Shape shape;
    bool known = type != ElementType::kUndefined && declared.shape.has_value();
    if (known)
      for (const auto& extent : *declared.shape) known = known && extent.value >= 0, shape.push_back(extent.value);
    if (!known) {
      if (traced.empty()) try {
          traced = call.run().run_body(call, body, inputs);
        } catch (const Error&) {
          call.not_supported(fmt::format("no iterations and an output {} of no declared shape", quoted(declared.name)));
        }
      if (!traced[j].is_tensor()) call.not_supported("scan outputs that are no tensors");
      type = traced[j].type, shape = traced[j].tensor.shape();
    }
    if (!info(type).carrier) call.not_supported("no iterations that would give strings");
    const int64_t rank = static_cast<int64_t>(shape.size()) + 1,
                  axis = j - first < axes.size() ? call.axis(axes[j - first], rank) : 0;
    shape.insert(shape.begin() + axis, 0);
    stacks.emplace_back(type, zeros(shape, *info(type).carrier));
  }
  return stacks;
}

Results loop(Call& call) {
  const Graph& body = call.graph("body");
  const size_t carried = call.inputs() > 2 ? call.inputs() - 2 : 0;
  call.require(body.outputs.size() >= carried + 1, "its body has too few outputs");
  const int64_t most = call.has(0) ? call.integer_of(call.tensor(0)) : std::numeric_limits<int64_t>::max();
  std::vector<Value> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(call.has(i + 2) ? call.value(i + 2) : Value());
  std::vector<std::vector<Value>> scanned(body.outputs.size() - carried - 1);
  Value condition = call.has(1) ? call.value(1) : Value(ElementType::kBool, integer(1, DType::kBool));
  const auto inputs_of = [&](int64_t i) {
    std::vector<Value> inputs{{ElementType::kInt64, integer(i)}, condition};
    inputs.insert(inputs.end(), state.begin(), state.end());
    inputs.resize(std::min(inputs.size(), body.inputs.size()));
    return inputs;
  };
  int64_t turns = 0;
  for (; turns < most && call.integer_of(condition.tensor) != 0; ++turns) {
    if (turns >= kMostIterations) call.not_supported(fmt::format("more than {} iterations", kMostIterations));
    std::vector<Value> outputs = call.run().run_body(call, body, inputs_of(turns));
    condition = outputs[0];
    call.require(condition.is_tensor(), "its body gives no condition");
    for (size_t j = 0; j < carried; ++j) state[j] = outputs[j + 1];
    for (size_t j = 0; j < scanned.size(); ++j) scanned[j].push_back(outputs[carried + 1 + j]);
  }
  std::vector<Value> stacks;
  if (turns == 0 && !scanned.empty()) stacks = stacks_of_nothing(call, body, carried + 1, inputs_of(0), {});
  else
    for (const std::vector<Value>& values : scanned) stacks.push_back(stacked(call, values, 0));
  Results results = std::move(state);
  results.insert(results.end(), stacks.begin(), stacks.end());
  return results;
}

// One pass of Scan over inputs without a batch axis.
Results scanned(const Call& call, const Graph& body, std::vector<Value> state, const std::vector<Value>& inputs,
                const std::vector<int64_t>& axes, const std::vector<int64_t>& backwards,
                const std::vector<int64_t>& output_axes, const std::vector<int64_t>& output_backwards) {
  const size_t carried = state.size();
  call.require(body.outputs.size() >= carried, "its body has too few outputs");
  std::vector<std::vector<Value>> given(body.outputs.size() - carried);
  int64_t length = 0;
  std::vector<int64_t> along;
  for (size_t i = 0; i < inputs.size(); ++i) {
    call.require(inputs[i].is_tensor(), "its inputs must be tensors");
    along.push_back(call.axis(i < axes.size() ? axes[i] : 0, inputs[i].tensor.rank()));
    const int64_t extent = inputs[i].tensor.dim(along[i]);
    call.require(i == 0 || extent == length, "its inputs differ in length");
    length = extent;
  }
  if (length > kMostIterations) call.not_supported(fmt::format("more than {} iterations", kMostIterations));
  if (length == 0) {
    std::vector<Value> arguments = state;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Shape slice_shape = inputs[i].tensor.shape();
      slice_shape.erase(slice_shape.begin() + along[i]);
      arguments.emplace_back(inputs[i].type, zeros(slice_shape, inputs[i].tensor.dtype()));
    }
    std::vector<Value> stacks = stacks_of_nothing(call, body, carried, std::move(arguments), output_axes);
    Results results = std::move(state);
    results.insert(results.end(), stacks.begin(), stacks.end());
    return results;
  }
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Value> arguments = state;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t place = i < backwards.size() && backwards[i] ? length - 1 - t : t;
      arguments.emplace_back(inputs[i].type, squeeze(slice(inputs[i].tensor, along[i], place, place + 1), along[i]));
    }
    const std::vector<Value> outputs = call.run().run_body(call, body, std::move(arguments));
    for (size_t j = 0; j < carried; ++j) state[j] = outputs[j];
    for (size_t j = 0; j < given.size(); ++j) given[j].push_back(outputs[carried + j]);
  }
  Results results = std::move(state);
  for (size_t j = 0; j < given.size(); ++j) {
    if (j < output_backwards.size() && output_backwards[j]) std::reverse(given[j].begin(), given[j].end());
    int64_t axis = j < output_axes.size() ? output_axes[j] : 0;
    if (given[j][0].is_tensor()) axis = call.axis(axis, given[j][0].tensor.rank() + 1);
    results.push_back(stacked(call, given[j], axis));
  }
  return results;
}

Results scan(Call& call) {
  const Graph& body = call.graph("body");
  const int64_t count = call.integer("num_scan_inputs");
  const bool batched = call.version() < 9;  // an input of lengths stands first, and all else has a batch axis
  const size_t first = batched ? 1 : 0;
  call.require(count >= 1 && count <= static_cast<int64_t>(call.inputs() - first), "num_scan_inputs is impossible");
  const size_t carried = call.inputs() - first - static_cast<size_t>(count);
  std::vector<Value> state, inputs;
  for (size_t i = first; i < call.inputs(); ++i) (i - first < carried ? state : inputs).push_back(call.value(i));
  if (!batched)
    return scanned(call, body, std::move(state), inputs, call.integers("scan_input_axes"),
                   call.integers("scan_input_directions"), call.integers("scan_output_axes"),
                   call.integers("scan_output_directions"));
  if (call.has(0)) call.not_supported("lengths of sequences");
  const int64_t B = inputs[0].tensor.dim(0);
  call.require(B > 0, "the batch is empty");
  std::vector<Results> rows;
  for (int64_t b = 0; b < B; ++b) {
    const auto row = [&](const std::vector<Value>& values) {
      std::vector<Value> result;
      for (const Value& value : values) result.emplace_back(value.type, squeeze(slice(value.tensor, 0, b, b + 1), 0));
      return result;
    };
    rows.push_back(scanned(call, body, row(state), row(inputs), {}, call.integers("directions"), {}, {}));
  }
  Results results;
  for (size_t j = 0; j < rows[0].size(); ++j) {
    std::vector<Value> values;
    for (const Results& one : rows) values.push_back(one[j]);
    results.push_back(stacked(call, values, 0));
  }
  return results;
}

}  // namespace

const RegisterOperators kControlFlow = {{"If", if_operator}, {"Loop", loop}, {"Scan", scan, 8}};

}  // namespace transom::onnx
