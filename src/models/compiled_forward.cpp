// SPDX-License-Identifier: Apache-2.0
#include "models/compiled_forward.h"

#include <algorithm>

#include "ir/node.h"
#include "transom/ops.h"

namespace transom {

bool CompiledForward::applies(const NamedTensors& inputs, const ForwardContext& context) {
  if ((mode() != Mode::kCompile && mode() != Mode::kGraph) || context.training || context.cache || gradients_enabled())
    return false;  // a cache decides by itself what is traced anew
  return std::none_of(inputs.items().begin(), inputs.items().end(), [](const auto& input) {
    const Tensor& tensor = input.second;
    return is_input(*tensor.node()) && !tensor.node()->computed(tensor.output());
  });
}

NamedTensors CompiledForward::operator()(const Model& model, const NamedTensors& inputs,
                                         const ForwardContext& context) {
  const std::lock_guard lock(mutex_);
  // New weights, after a step of training, are bound anew.
  const auto& parameters = model.parameters();
  const bool same =
      std::equal(parameters.begin(), parameters.end(), weights_.begin(), weights_.end(),
                 [](const auto& parameter, const Tensor& bound) { return parameter->value.same_as(bound); });
  if (!same) {
    passes_.clear();
    weights_.clear();
    for (const auto& parameter : parameters) weights_.push_back(parameter->value);
  }
  std::string key = std::to_string(static_cast<int>(Autocast::current())) + (context.output_hidden_states ? "h" : "") +
                    (QuantizedLinear::active() ? "q" : "");
  std::vector<std::string> names;
  std::vector<Tensor> arguments;
  for (const auto& [name, tensor] : inputs.items()) {
    key += " " + name;
    names.push_back(name);
    arguments.push_back(tensor);
  }
  Pass& pass = passes_[key];
  if (!pass.function) {
    const auto trace = [&model, &pass, names, context](const std::vector<Tensor>& traced) {
      NamedTensors named;
      for (size_t i = 0; i < names.size(); ++i) named.set(names[i], traced[i]);
      ForwardContext fresh = context;
      pass.results.clear();
      std::vector<Tensor> results;
      for (const auto& [name, tensor] : model.run(named, fresh).items()) {
        pass.results.push_back(name);
        results.push_back(tensor);
      }
      return results;
    };
    pass.function = compile(trace, {.name = model.architecture(), .capture = mode() == Mode::kGraph, .donated = {}});
  }
  const std::vector<Tensor> results = (*pass.function)(std::move(arguments));
  NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.set(pass.results[i], results[i]);
  return outputs;
}

}  // namespace transom
