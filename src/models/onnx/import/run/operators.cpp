// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/operators.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"

namespace transom::onnx {
namespace {

using Records = std::map<std::pair<std::string_view, std::string_view>, std::vector<OperatorRecord>>;
Records& records() {
  static Records instance;
  return instance;
}

}  // namespace

RegisterOperators::RegisterOperators(std::initializer_list<OperatorRecord> list) {
  for (const OperatorRecord& record : list) records()[{record.domain, record.name}].push_back(record);
}

const OperatorRecord* find_operator(std::string_view domain, std::string_view name, int64_t version) {
  const auto found = records().find({domain, name});
  if (found == records().end()) return nullptr;
  for (const OperatorRecord& record : found->second)
    if (record.first <= version && version <= record.last) return &record;
  return nullptr;
}

std::vector<OperatorRecord> all_operators() {
  std::vector<OperatorRecord> all;
  for (const auto& [key, list] : records()) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::string Call::where() const {
  return fmt::format("{}: node {}: operator {} of {}, version {}", run_.where(), quoted(node_.name), op_type_,
                     domain_.empty() ? "ai.onnx" : domain_, version_);
}

void Call::not_supported(const std::string& what) const { fail("{}, is not supported with {}", where(), what); }
void Call::invalid(const std::string& what) const { fail("{}: {}", where(), what); }

const Computing& Call::computing() const { return run_.computing(); }

const Value& Call::value(size_t input) const {
  if (!has(input)) invalid(fmt::format("input {} is missing", input));
  return inputs_[input];
}

const Tensor& Call::tensor(size_t input) const {
  const Value& found = value(input);
  if (!found.is_tensor()) invalid(fmt::format("input {}: expected a tensor, found a sequence", input));
  return found.tensor;
}

ElementType Call::type(size_t input) const {
  tensor(input);
  return inputs_[input].type;
}

std::vector<int64_t> Call::integers_of(const Tensor& tensor) const {
  const Array& values = run_.host_values().read(tensor);
  if (values.floating()) invalid("expected integers, found floating numbers");
  return values.integer;
}

int64_t Call::integer_of(const Tensor& tensor) const {
  const std::vector<int64_t> values = integers_of(tensor);
  if (values.size() != 1) invalid(fmt::format("expected one number, found {}", values.size()));
  return values[0];
}

double Call::number_of(const Tensor& tensor) const {
  const Array& values = run_.host_values().read(tensor);
  if (tensor.size() != 1) invalid(fmt::format("expected one number, found {}", tensor.size()));
  return values.floating() ? values.real[0] : static_cast<double>(values.integer[0]);
}

std::vector<int64_t> Call::integers(size_t input) const { return integers_of(tensor(input)); }

std::vector<double> Call::numbers(size_t input) const {
  const Array& values = run_.host_values().read(tensor(input));
  if (values.floating()) return values.real;
  return {values.integer.begin(), values.integer.end()};
}

const Attribute* Call::attribute(std::string_view name) const {
  for (const Attribute& attribute : node_.attributes)
    if (attribute.name == name) {
      if (attribute.reference.empty()) return &attribute;
      return run_.function_attribute(attribute.reference);
    }
  return nullptr;
}

const Attribute* Call::typed(std::string_view name, AttributeType type) const {
  const Attribute* found = attribute(name);
  if (found && found->type != type)
    invalid(fmt::format("attribute {} has type {}, expected {}", name, static_cast<int>(found->type),
                        static_cast<int>(type)));
  return found;
}

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* found = typed(name, AttributeType::kInt);
  return found ? found->i : otherwise;
}

int64_t Call::integer(std::string_view name) const {
  const Attribute* found = typed(name, AttributeType::kInt);
  if (!found) invalid(fmt::format("attribute {} is missing", name));
  return found->i;
}

double Call::number(std::string_view name, double otherwise) const {
  const Attribute* found = typed(name, AttributeType::kFloat);
  return found ? static_cast<double>(found->f) : otherwise;
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* found = typed(name, AttributeType::kString);
  return found ? found->s : std::string(otherwise);
}

std::vector<int64_t> Call::integers(std::string_view name, std::vector<int64_t> otherwise) const {
  const Attribute* found = typed(name, AttributeType::kInts);
  return found ? found->ints : std::move(otherwise);
}

std::vector<double> Call::numbers(std::string_view name, std::vector<double> otherwise) const {
  const Attribute* found = typed(name, AttributeType::kFloats);
  if (!found) return otherwise;
  return {found->floats.begin(), found->floats.end()};
}

std::vector<std::string> Call::texts(std::string_view name) const {
  const Attribute* found = typed(name, AttributeType::kStrings);
  return found ? found->strings : std::vector<std::string>();
}

const Graph& Call::graph(std::string_view name) const {
  const Attribute* found = typed(name, AttributeType::kGraph);
  if (!found || !found->graph) invalid(fmt::format("attribute {} is missing", name));
  return *found->graph;
}

Value Call::like(size_t input, const Tensor& tensor) const { return {type(input), in_range(tensor, type(input))}; }

int64_t Call::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) invalid(fmt::format("axis {} is outside of a tensor of rank {}", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> Call::axes(const std::vector<int64_t>& list, int64_t rank) const {
  std::vector<int64_t> result;
  for (const int64_t one : list) result.push_back(axis(one, rank));
  std::vector<int64_t> sorted = result;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) invalid("an axis comes twice");
  return result;
}

}  // namespace transom::onnx
