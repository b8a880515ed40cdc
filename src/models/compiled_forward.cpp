// SPDX-License-Identifier: Apache-2.0
#include "models/compiled_forward.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ir/node.h"
#include "graph/ir/tensor_map.h"
#include "graph/ops/computing.h"
#include "models/unfinite_numbers.h"
#include "transom/ops.h"

namespace transom {

bool CompiledForward::applies(const NamedTensors& inputs, const ForwardContext& context) {
  if ((mode() != Mode::kCompile && mode() != Mode::kGraph) || context.training || context.cache ||
      context.buffer_updates || context.loss_divisors || context.token_loss || gradients_enabled() ||
      !key_of(context.computing))
    return false;  // a cache decides by itself what is traced anew
  return std::none_of(inputs.items().begin(), inputs.items().end(), [](const auto& input) {
    const Tensor& tensor = input.second;
    return is_input(*tensor.node()) && !tensor.node()->computed(tensor.output());
  });
}

namespace {

// What a pass depends on besides its inputs: tensors become further arguments of the function, all else is part of its
// key. A new field of ForwardContext does not compile here until it has its place.
struct ContextParts {
  std::string key;
  std::vector<Tensor ForwardContext::*> tensors;
};
ContextParts parts_of(const ForwardContext& context) {
  const auto& [training, num_items_in_batch, dropout_key, gradient_checkpointing, output_hidden_states, return_loss,
               interpolate_pos_encoding, buffer_updates, loss_divisors, dropouts, cache, logits_to_keep, texts,
               token_loss, computing] = context;
  ContextParts parts;
  parts.key = key_of(computing).value();
  parts.key += ' ';
  for (const bool flag : {training, num_items_in_batch.defined(), dropout_key.defined(), gradient_checkpointing,
                          output_hidden_states, return_loss, interpolate_pos_encoding, buffer_updates != nullptr,
                          loss_divisors != nullptr, cache != nullptr, texts != nullptr, token_loss != nullptr})
    parts.key += flag ? '1' : '0';
  parts.key += fmt::format(" {} {}", dropouts, logits_to_keep);
  for (Tensor ForwardContext::*tensor : {&ForwardContext::num_items_in_batch, &ForwardContext::dropout_key})
    if ((context.*tensor).defined()) parts.tensors.push_back(tensor);
  return parts;
}

constexpr size_t kMostPasses = 64;  // their traces are bounded by bytes, see caches.h

}  // namespace

std::shared_ptr<CompiledForward::Pass> CompiledForward::find(const Model& model, const std::string& key) {
  // New weights, after a step of training, are bound anew.
  std::vector<Tensor> weights;
  for (const auto* group : {&model.parameters(), &model.buffers(), &model.frozen()})
    for (const auto& parameter : *group) weights.push_back(parameter->value);
  if (!std::equal(weights.begin(), weights.end(), weights_.begin(), weights_.end(), SameTensor())) {
    passes_.clear();
    weights_ = std::move(weights);
  }
  if (passes_.size() >= kMostPasses && !passes_.contains(key))
    passes_.erase(std::min_element(passes_.begin(), passes_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
  std::shared_ptr<Pass>& pass = passes_[key];
  if (!pass) pass = std::make_shared<Pass>();
  pass->last_use = ++uses_;
  return pass;
}

NamedTensors CompiledForward::operator()(const Model& model, const NamedTensors& inputs,
                                         const ForwardContext& context) {
  const ContextParts parts = parts_of(context);
  std::string key = parts.key;
  std::vector<std::string> names;
  std::vector<Tensor> arguments;
  for (const auto& [name, tensor] : inputs.items()) {
    key += " " + name;
    names.push_back(name);
    arguments.push_back(tensor);
  }
  for (Tensor ForwardContext::*tensor : parts.tensors) arguments.push_back(context.*tensor);

  std::unique_lock lock(mutex_);
  const std::shared_ptr<Pass> pass = find(model, key);
  if (!pass->function) {
    ForwardContext flags = context;
    for (Tensor ForwardContext::*tensor : parts.tensors) flags.*tensor = {};
    const auto trace = [&model, pass = pass.get(), names, flags,
                        tensors = parts.tensors](const std::vector<Tensor>& traced) {
      NamedTensors named;
      for (size_t i = 0; i < names.size(); ++i) named.set(names[i], traced[i]);
      ForwardContext fresh = flags;
      for (size_t i = 0; i < tensors.size(); ++i) fresh.*tensors[i] = traced[names.size() + i];
      std::vector<std::string> result_names;
      std::vector<Tensor> results;
      const NamedTensors outputs = with_unfinite_rows(model, named, model.run_adapted(named, fresh));
      for (const auto& [name, tensor] : outputs.items()) {
        result_names.push_back(name);
        results.push_back(tensor);
      }
      const std::lock_guard of_results(pass->mutex);
      pass->results = std::move(result_names);
      return results;
    };
    pass->function = compile(trace, {.name = model.architecture(), .capture = mode() == Mode::kGraph, .donated = {}});
  }
  lock.unlock();
  const std::vector<Tensor> results = (*pass->function)(std::move(arguments));
  const std::lock_guard of_results(pass->mutex);
  NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.set(pass->results[i], results[i]);
  return outputs;
}

}  // namespace transom
