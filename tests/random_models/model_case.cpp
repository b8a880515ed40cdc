// SPDX-License-Identifier: Apache-2.0
#include "random_models/model_case.h"

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/named_values.h"
#include "models/onnx/proto/read_model.h"
#include "runtime/tensor/mode_scope.h"

namespace transom::random_models {
namespace {

using onnx::ElementType;
using onnx::Value;

// How far results of several roundings may be off, of the number and of the largest one beside it. Graphs have up to
// four nodes, sums up to some dozens of terms.
double tolerance_of(ElementType type) {
  return type == ElementType::kFloat64 ? 1e-9 : type == ElementType::kFloat32 ? 1e-4 : 1e-2;
}

// Below the smallest normal number a rounding is off by half of the smallest number of all, whatever the size of what
// is rounded.
double smallest_of(ElementType type) {
  return type == ElementType::kFloat64   ? std::numeric_limits<double>::denorm_min()
         : type == ElementType::kFloat32 ? std::numeric_limits<float>::denorm_min()
                                         : 0x1p-24;
}

std::string type_and_shape(const Value& value) {
  return fmt::format("{}{}", onnx::name_of(value.type), to_string(value.tensor.shape()));
}

// Nothing where it is what was expected.
std::string difference(const Value& found, const Value& expected, bool exact) {
  if (found.type != expected.type || found.tensor.shape() != expected.tensor.shape())
    return fmt::format("found {}, expected {}", type_and_shape(found), type_and_shape(expected));
  if (!onnx::is_floating(found.type)) {
    if (onnx::packed_bytes(found) == onnx::packed_bytes(expected)) return {};
    return fmt::format("found [{}], expected [{}]", fmt::join(found.tensor.to_vector<int64_t>(), " "),
                       fmt::join(expected.tensor.to_vector<int64_t>(), " "));
  }
  const std::vector<double> x = found.tensor.to_vector<double>(), y = expected.tensor.to_vector<double>();
  double largest = 0;
  for (const double number : y)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  const double tolerance = exact ? 0 : tolerance_of(found.type), least = exact ? 0 : 8 * smallest_of(found.type);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (std::isfinite(y[i]) && std::abs(x[i] - y[i]) <= tolerance * (std::abs(y[i]) + largest) + least) continue;
    return fmt::format("element {}: found {}, expected {}", i, x[i], y[i]);
  }
  return {};
}

std::string difference(const Value& found, const ExpectedOutput& expected) {
  std::string text = difference(found, expected.value, expected.exact);
  if (text.empty() || !expected.other) return text;
  const std::string other = difference(found, *expected.other, false);
  return other.empty() ? "" : fmt::format("{}; also right: {}", text, other);
}

}  // namespace

std::vector<ModelCase> read_cases(const fs::path& file) {
  std::map<std::string, ModelCase> cases;
  for (const auto& [full_name, value] : onnx::read_values(file)) {
    const size_t first = full_name.find('/'), second = full_name.find('/', first + 1);
    if (first == std::string::npos) fail("{}: {}: expected CASE/KIND/NAME", file.string(), full_name);
    ModelCase& one = cases[full_name.substr(0, first)];
    one.name = full_name.substr(0, first);
    const std::string kind = full_name.substr(first + 1, second - first - 1);
    const std::string name = second == std::string::npos ? "" : full_name.substr(second + 1);
    if (kind == "model") {
      const std::vector<std::byte> bytes = value.tensor.to_bytes();
      one.model = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else if (kind == "in") {
      one.inputs.emplace_back(name, value);
    } else {
      auto output = std::find_if(one.outputs.begin(), one.outputs.end(),
                                 [&](const ExpectedOutput& known) { return known.name == name; });
      if (output == one.outputs.end()) output = one.outputs.insert(output, {name, {}, false, {}});
      if (kind == "or") output->other = value;
      else output->value = value, output->exact = kind == "exact";
    }
  }
  std::vector<ModelCase> result;
  for (auto& [name, one] : cases) result.push_back(std::move(one));
  return result;
}

Verdict check_case(const ModelCase& model_case) {
  const std::pair<const char*, Mode> modes[] = {
      {"lazy", Mode::kLazy}, {"eager", Mode::kEager}, {"compile", Mode::kCompile}, {"graph", Mode::kGraph}};
  for (const auto& [mode_name, mode] : modes) {
    const ModeScope scope(mode);
    try {
      const onnx::ImportedGraph graph(
          onnx::parse_model(*model_case.model, model_case.name + ".onnx", model_case.model));
      const bool twice = mode == Mode::kCompile || mode == Mode::kGraph;  // a second run finds the program
      for (int run = 0; run < (twice ? 2 : 1); ++run) {
        const onnx::NamedValues found = graph.run(model_case.inputs);
        for (const ExpectedOutput& expected : model_case.outputs) {
          const auto output =
              std::find_if(found.begin(), found.end(), [&](const auto& known) { return known.first == expected.name; });
          const std::string text = output == found.end() ? "it is missing" : difference(output->second, expected);
          if (!text.empty()) return {false, fmt::format("{}: output {}: {}", mode_name, expected.name, text)};
        }
      }
    } catch (const std::exception& error) {
      const std::string_view text = error.what();
      const bool refused = text.find("not supported") != text.npos && text.find('\n') == text.npos;
      return {refused, fmt::format("{}: {}", mode_name, text)};
    }
  }
  return {};
}

}  // namespace transom::random_models
