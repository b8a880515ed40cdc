// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "models/optim/rollback.h"
#include "runtime/tensor/evaluate.h"
#include "transom/gradients.h"
#include "transom/layers.h"
#include "transom/optim.h"

namespace transom {
namespace {

using Parameters = std::vector<std::shared_ptr<Parameter>>;

Parameters trained_of(const Parameters& parameters) {
  Parameters trained;
  for (const auto& parameter : parameters) {
    if (!parameter->value.requires_grad()) continue;
    if (parameter->value.dtype() != DType::kFloat32)
      fail("{}: expected weights of float32 to train, found {}", parameter->name, name_of(parameter->value.dtype()));
    // What lies in a file is not to be written.
    if (!buffer_of(parameter->value)->is_writable()) {
      parameter->value = Tensor::from_bytes(parameter->value.to_bytes(), parameter->value.type());
      parameter->value.set_requires_grad();
    }
    trained.push_back(parameter);
  }
  if (trained.empty()) fail("minimize: expected parameters that require gradients, found none");
  return trained;
}

// The new value of each buffer; of one that a pass updates several times, the last.
std::vector<Tensor> updated(const std::vector<BufferUpdate>& updates) {
  std::vector<Tensor> values;
  for (const BufferUpdate& update : updates) {
    update.buffer->value = update.value.detach();
    values.push_back(update.buffer->value);
  }
  return values;
}

std::vector<OptimizedParameter> optimized(const Parameters& trained, const MinimizeOptions& options) {
  std::vector<OptimizedParameter> all;
  for (const auto& parameter : trained)
    all.push_back({parameter->name, parameter->value, !options.decays || options.decays(*parameter)});
  return all;
}

// Traces the step: the parameters, their statistics and the state of the optimizer become values that are not computed.
std::vector<Tensor> trace(const Tensor& loss, const Parameters& trained, Optimizer& optimizer,
                          const MinimizeOptions& options) {
  if (loss.size() != 1 || !is_floating(loss.dtype()))
    fail("minimize: expected a loss of one floating number, found {}", to_string(loss.type()));
  const std::vector<OptimizedParameter> before = optimized(trained, options);
  std::vector<Tensor> values;
  for (const auto& parameter : trained) values.push_back(parameter->value);
  std::vector<Tensor> found = gradients(loss, values);
  const NoGradient update;
  if (options.max_grad_norm > 0) found = clip_by_norm(found, global_norm(found), options.max_grad_norm);
  std::vector<Tensor> everything = optimizer.step(before, found, options.learning_rate);
  for (size_t i = 0; i < trained.size(); ++i) trained[i]->value = everything[i];
  for (const auto& [name, state] : optimizer.state()) everything.push_back(state);
  return everything;
}

}  // namespace

Tensor minimize(const std::function<Tensor(ForwardContext& context)>& loss, const Parameters& parameters,
                Optimizer& optimizer, const MinimizeOptions& options) {
  const Parameters trained = trained_of(parameters);
  std::vector<BufferUpdate> updates;
  Tensor result;
  std::vector<Tensor> everything;
  std::unique_ptr<Rollback> before;
  {
    ForwardContext context{
        .training = true, .dropout_key = random_key(options.seed, optimizer.steps()), .buffer_updates = &updates};
    const Tensor computed = loss(context);
    Parameters buffers;
    for (const BufferUpdate& update : updates) buffers.push_back(update.buffer);
    // Before what is held for a failure, so that the first step has the program of all others.
    optimizer.initialise(optimized(trained, options));
    before = std::make_unique<Rollback>(trained, buffers, optimizer);
    everything = trace(computed, trained, optimizer, options);
    const Tensor in_f32 = computed.dtype() == DType::kFloat32 ? computed : cast(computed, DType::kFloat32);
    result = in_f32.detach();
    for (Tensor& value : updated(updates)) everything.push_back(std::move(value));
  }
  updates.clear();
  everything.push_back(result);
  // By now only the graph and `before` hold the old values: the new ones take their memory.
  eval(everything, [&](const auto& buffer) { return before->references_to(buffer); });
  before->discard();
  for (const auto& parameter : trained) parameter->value.set_requires_grad();
  return result.rank() == 0 ? result : reshape(result, {});
}

}  // namespace transom
