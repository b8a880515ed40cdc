// SPDX-License-Identifier: Apache-2.0
// Sequences and optional values within a graph.
#include <algorithm>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {
namespace {

using Values = std::vector<Value>;

Value sequence_of(Values values) {
  Value result;
  result.sequence = std::make_shared<const Values>(std::move(values));
  return result;
}

const Values& sequence(const Call& call, size_t input) {
  if (!call.value(input).is_sequence()) call.invalid(fmt::format("input {}: expected a sequence", input));
  return *call.value(input).sequence;
}

size_t position(const Call& call, size_t input, size_t count, size_t limit) {
  int64_t place = call.integer_of(call.tensor(input));
  if (place < 0) place += static_cast<int64_t>(count);
  call.require(place >= 0 && place < static_cast<int64_t>(limit), "the position is outside of the sequence");
  return static_cast<size_t>(place);
}

Results sequence_construct(Call& call) {
  Values values;
  for (size_t i = 0; i < call.inputs(); ++i) values.push_back(call.value(i));
  return {sequence_of(std::move(values))};
}
Results sequence_empty(Call&) { return {sequence_of({})}; }
Results sequence_length(Call& call) {
  return {{ElementType::kInt64, integer(static_cast<int64_t>(sequence(call, 0).size()))}};
}
Results sequence_at(Call& call) {
  const Values& values = sequence(call, 0);
  return {values[position(call, 1, values.size(), values.size())]};
}
Results sequence_insert(Call& call) {
  Values values = sequence(call, 0);
  call.require(values.size() < 1'000'000, "the sequence is too long");
  const size_t place = call.has(2) ? position(call, 2, values.size(), values.size() + 1) : values.size();
  values.insert(values.begin() + static_cast<ptrdiff_t>(place), call.value(1));
  return {sequence_of(std::move(values))};
}
Results sequence_erase(Call& call) {
  Values values = sequence(call, 0);
  call.require(!values.empty(), "the sequence is empty");
  const size_t place = call.has(1) ? position(call, 1, values.size(), values.size()) : values.size() - 1;
  values.erase(values.begin() + static_cast<ptrdiff_t>(place));
  return {sequence_of(std::move(values))};
}

Results split_to_sequence(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank()), extent = x.dim(axis);
  std::vector<int64_t> sizes;
  if (!call.has(1)) sizes.assign(static_cast<size_t>(extent), 1);
  else if (call.tensor(1).rank() > 0) sizes = call.integers(1);
  else {
    const int64_t size = call.integer_of(call.tensor(1));
    call.require(size > 0, "the size is impossible");
    for (int64_t start = 0; start < extent; start += size) sizes.push_back(std::min(size, extent - start));
  }
  Values parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    call.require(size >= 0 && size <= extent - start, "the parts do not fit the axis");
    Tensor part = slice(x, axis, start, start + size);
    if (!call.has(1) && call.integer("keepdims", 1) == 0) part = squeeze(part, axis);
    parts.emplace_back(call.type(0), part);
    start += size;
  }
  return {sequence_of(std::move(parts))};
}

Results concat_from_sequence(Call& call) {
  const Values& values = sequence(call, 0);
  call.require(!values.empty() && values[0].is_tensor(), "the sequence has no tensors");
  const bool stacks = call.integer("new_axis", 0) != 0;
  const int64_t axis = call.axis(call.integer("axis"), values[0].tensor.rank() + (stacks ? 1 : 0));
  std::vector<Tensor> parts;
  for (const Value& value : values) {
    call.require(value.is_tensor() && value.type == values[0].type, "the sequence holds several types");
    parts.push_back(stacks ? unsqueeze(value.tensor, axis) : value.tensor);
  }
  return {{values[0].type, concatenate(parts, axis)}};
}

Results sequence_map(Call& call) {
  const Graph& body = call.graph("body");
  const size_t count = sequence(call, 0).size();
  std::vector<Values> results(body.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    Values inputs;
    for (size_t j = 0; j < call.inputs(); ++j) {
      const Value& value = call.value(j);
      if (value.is_sequence()) call.require(value.sequence->size() == count, "its sequences differ in length");
      inputs.push_back(value.is_sequence() ? (*value.sequence)[i] : value);
    }
    const Values outputs = call.run().run_body(call, body, std::move(inputs));
    for (size_t j = 0; j < results.size(); ++j) results[j].push_back(outputs[j]);
  }
  Results sequences;
  for (Values& values : results) sequences.push_back(sequence_of(std::move(values)));
  return sequences;
}

Results optional(Call& call) { return {call.has(0) ? call.value(0) : Value()}; }
Results optional_has_element(Call& call) { return {{ElementType::kBool, integer(call.has(0) ? 1 : 0, DType::kBool)}}; }
Results optional_get_element(Call& call) { return {call.value(0)}; }

}  // namespace

const RegisterOperators kSequences = {{"SequenceConstruct", sequence_construct, 11},
                                      {"SequenceEmpty", sequence_empty, 11},
                                      {"SequenceLength", sequence_length, 11},
                                      {"SequenceAt", sequence_at, 11},
                                      {"SequenceInsert", sequence_insert, 11},
                                      {"SequenceErase", sequence_erase, 11},
                                      {"SplitToSequence", split_to_sequence, 11},
                                      {"ConcatFromSequence", concat_from_sequence, 11},
                                      {"SequenceMap", sequence_map, 17},
                                      {"Optional", optional, 15},
                                      {"OptionalHasElement", optional_has_element, 15},
                                      {"OptionalGetElement", optional_get_element, 15}};

}  // namespace transom::onnx
