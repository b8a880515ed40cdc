// SPDX-License-Identifier: Apache-2.0
// Level 1: every operation, forward and gradient, against the float64 of its record.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "graph/ops/rules.h"
#include "tools/certify/bounds.h"
#include "tools/certify/certify.h"
#include "tools/certify/values.h"
#include "transom/gradients.h"

namespace transom::certify {
namespace {

// "[1, 3]" of a place in a row-major tensor.
std::string index_of(int64_t place, const Shape& shape) {
  Shape index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = place % std::max<int64_t>(shape[axis], 1);
    place /= std::max<int64_t>(shape[axis], 1);
  }
  return to_string(index);
}

// The operation with every input replaced: by absolute values, or by ones. Indices stay.
std::vector<Array> evaluate_with(const Graph& graph, std::vector<Array> inputs, double (*change)(double)) {
  for (Array& input : inputs)
    for (double& x : input.real) x = change(x);
  return evaluate(graph, inputs);
}

// A graph, the inputs it is run with, and whether it takes a gradient.
struct Trial {
  Graph graph;
  std::vector<Array> inputs;
  bool gradient = false;
};

// The vector-Jacobian product of the case with random cotangents; no outputs where nothing can be differentiated.
Trial gradient_of(const Case& c, std::vector<Array> inputs, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  const Graph forward = graph_of(c);
  Trial trial{{}, std::move(inputs), true};
  std::vector<Tensor> outputs, cotangents, sources, leaves = forward.inputs;
  for (const Tensor& output : forward.outputs) {
    if (!is_floating(output.dtype())) continue;
    outputs.push_back(output);
    cotangents.push_back(make_input(output.type()));
    leaves.push_back(cotangents.back());
    Array& values = trial.inputs.emplace_back(output.type());
    for (double& x : values.real) x = real(random);
  }
  for (const Tensor& leaf : forward.inputs)
    if (is_floating(leaf.dtype())) sources.push_back(leaf);
  if (outputs.empty() || sources.empty()) return {};
  trial.graph = make_graph(gradients(outputs, cotangents, sources), leaves);
  return trial;
}

struct Table {
  Recorder& recorder;
  std::map<std::pair<std::string, std::string>, Row> rows;

  Row& row(const Case& c, bool gradient) {
    const std::string variant = std::string(transom::name_of(c.dtype())) + (gradient ? " gradient" : "");
    Row& row = rows[{c.operation_name(), variant}];
    if (row.subject.empty())
      row = {.level = "operations", .subject = c.operation_name(), .variant = variant, .cases = 0};
    return row;
  }
};

// The least that errors of output `i` are measured by: what is multiplied by a difference of numbers near 1. That is x
// in the activations, and the cotangents, which come last, in gradients; where a gradient in 16 bits is the sum over
// many cotangents, whose terms are rounded too, what so many of them come to.
double floor_of(const Operation& operation, const Trial& trial, size_t i) {
  double largest = 0;
  const auto include = [&](const Array& array) {
    for (const double x : array.real) largest = std::max(largest, std::abs(x));
  };
  if (trial.gradient) {
    const Type &from = trial.inputs.back().type, &to = trial.graph.outputs[i].type();
    include(trial.inputs.back());
    if (is_half(to.dtype) && elements(from.shape) > elements(to.shape) && elements(to.shape) > 0)
      largest *= std::sqrt(static_cast<double>(elements(from.shape)) / static_cast<double>(elements(to.shape)));
  }
  if (operation.name.starts_with("gelu") || operation.name.starts_with("silu")) include(trial.inputs[0]);
  return largest;
}

// The types without which no model runs; a device may refuse others.
bool is_indispensable(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kBool;
}

void try_case(const Case& c, Trial trial, Row& row) {
  const std::shared_ptr<Device>& device = default_device();
  ++row.cases;
  std::vector<Array> found;
  try {
    found = run_on(device, trial.graph, trial.inputs);
  } catch (const Error& error) {
    const bool refused = std::string_view(error.what()).find(": not supported: ") != std::string_view::npos;
    const auto dispensable = [](const Tensor& tensor) { return !is_indispensable(tensor.dtype()); };
    const auto& [in, out] = std::pair(trial.graph.inputs, trial.graph.outputs);
    if (refused &&
        (std::any_of(in.begin(), in.end(), dispensable) || std::any_of(out.begin(), out.end(), dispensable))) {
      if (--row.cases == 0 && row.verdict == Verdict::kPass)
        row.verdict = Verdict::kNotSupported, row.note = error.what();
      return;
    }
    row.verdict = Verdict::kFail;
    row.ratio = INFINITY;
    row.note = c.text() + ": " + error.what();
    return;
  }
  if (row.verdict == Verdict::kNotSupported) row.verdict = Verdict::kPass, row.note.clear();
  const std::vector<Array> expected = evaluate(trial.graph, trial.inputs);
  // Each output by its own type: that of a product in 16 bits may be wide, and the reverse.
  std::vector<Bound> bounds;
  for (const Array& output : expected) {
    const DType dtype = output.type.dtype;
    bounds.push_back(bound_of(*c.operation, dtype, trial.gradient));
    // A wide gradient of numbers in 16 bits comes of others that were rounded to these on the way.
    if (trial.gradient && output.floating() && is_half(c.dtype()) && !is_half(dtype))
      bounds.back().units = bound_of(*c.operation, c.dtype(), true).units * ulp(1, c.dtype()) / ulp(1, dtype);
  }
  std::vector<Array> magnitudes, terms;
  if (std::any_of(bounds.begin(), bounds.end(), [](const Bound& bound) { return bound.scale == Scale::kTerms; })) {
    magnitudes = evaluate_with(trial.graph, trial.inputs, [](double x) { return std::abs(x); });
    terms = evaluate_with(trial.graph, trial.inputs, [](double) { return 1.0; });
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    row.bound = std::max(row.bound, bounds[i].units);  // what the row shows: the widest of its outputs
    const Difference d = compare(expected[i], found[i], bounds[i], magnitudes.empty() ? nullptr : &magnitudes[i],
                                 terms.empty() ? nullptr : &terms[i], floor_of(*c.operation, trial, i));
    if (d.ratio > 1 && row.verdict != Verdict::kFail) {
      row.verdict = Verdict::kFail;
      row.note = fmt::format("{}{}: output {} {} at {}: expected {:.9g}, found {:.9g}",
                             trial.gradient ? "gradient of " : "", c.text(), i, to_string(expected[i].type),
                             index_of(d.place, expected[i].type.shape), d.expected, d.found);
    }
    row.worst = std::max(row.worst, d.ulp);
    row.ratio = std::max(row.ratio, d.ratio);
  }
}

bool is_wanted(const Operation& operation, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), operation.name) != names.end();
}

}  // namespace

void certify_operations(Recorder& recorder) {
  const std::vector<Case> cases = all_cases(recorder.options().seed);
  for (const std::string& name : recorder.options().operations)
    if (std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.operation->name == name; }))
      fail(ErrorKind::kUsage, "--operation: no operation that is tried is called {}", quoted(name));
  for (size_t i = 0; i < cases.size() && !recorder.stopped();) {
    // The cases of one operation stand together and give its rows.
    Table table{recorder, {}};
    const Operation* const operation = cases[i].operation;
    const bool wanted = is_wanted(*operation, recorder.options().operations);
    bool failed = false;
    for (; i < cases.size() && cases[i].operation == operation; ++i) {
      if (!wanted || (failed && recorder.options().stop_at_first_failure)) continue;
      const Case& c = cases[i];
      const uint64_t seed = recorder.options().seed * 1000003 + i;
      std::vector<Array> inputs = inputs_of(c, seed);
      for (Array& input : inputs) round_to_dtype(input);  // what the device is given
      Row& row = table.row(c, false);
      try_case(c, {graph_of(c), inputs}, row);
      failed = failed || row.verdict == Verdict::kFail;
      if (c.values != Values::kUniform || !is_floating(c.dtype()) || operation->stops_gradient ||
          (operation->gradient_jumps && is_half(c.dtype())))
        continue;
      Trial trial;
      try {
        trial = gradient_of(c, std::move(inputs), seed + 1);
      } catch (const Error&) {
        continue;  // it has none
      }
      if (trial.graph.outputs.empty()) continue;
      for (Array& input : trial.inputs) round_to_dtype(input);
      Row& gradient = table.row(c, true);
      try_case(c, std::move(trial), gradient);
      failed = failed || gradient.verdict == Verdict::kFail;
    }
    for (auto& [name, row] : table.rows) recorder.add(std::move(row));
  }
}

}  // namespace transom::certify
