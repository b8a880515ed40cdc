// SPDX-License-Identifier: Apache-2.0
// One update of a model whose layers are spread over the stages of a pipeline: the micro-batches of the update go
// through the stages one behind the other, and each stage updates its own weights.
#include <cmath>

#include "base/error.h"
#include "models/sharding/pipeline/run.h"
#include "models/sharding/rewrite/reshard.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {

TrainStep::Result TrainStep::pipelined_step(const std::vector<NamedTensors>& micro_batches, double learning_rate,
                                            int64_t step) {
  const ModeScope traced_only(Mode::kLazy);
  ModelSharding& sharding = *sharding_;
  ShardedTensors& tensors = sharding.tensors();
  const std::vector<OptimizedParameter> mine = sharding.at_home(parameters());
  sharding.initialise(*optimizer_, mine);

  // All micro-batches as graphs; nothing is computed yet.
  const WholeBatch whole = whole_batch(micro_batches);
  std::vector<Tensor> values;
  for (const auto& parameter : trained_) values.push_back(parameter->value);
  std::vector<PipelinedBatch> batches;
  std::vector<size_t> places, places_of_first;  // of the parameters that have gradients
  std::vector<Placement> placements;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    MicroBatch batch(*this, whole, draw_of(step, i));
    batch.context.buffer_updates = nullptr;
    Tensor part = loss_of(micro_batches[i], batch.context);
    if (whole.scale != 1) part = part * whole.scale;
    ShardedRequest request{.phases = {.backward_from = make_input({}).node()->sequence}};
    const std::vector<Tensor> found = gradients(part, values);
    request.outputs.push_back({part.detach(), std::nullopt});
    places.clear();
    for (size_t k = 0; k < found.size(); ++k) {
      if (!found[k].defined()) continue;
      places.push_back(k);
      request.outputs.push_back({found[k], sharding.accumulated_home_of(*trained_[k])});
      request.preferred.emplace_back(found[k], *request.outputs.back().placement);
    }
    if (i == 0) places_of_first = places;
    else if (places != places_of_first)
      fail("pp_size: micro-batch {} of the update gives gradients of other parameters than the first", i + 1);
    ModelSharding::Pipelined traced = sharding.trace(std::move(request));
    placements = traced.placements;
    for (size_t k = 0; k < places.size(); ++k) traced.batch.homes[k + 1] = sharding.stage_of(*trained_[places[k]]);
    batches.push_back(std::move(traced.batch));
  }
  PipelineResult summed = sharding.run(batches, /*backward=*/true);
  batches.clear();

  // This stage's gradients, each where its state is, and their norm.
  const NoGradient update;
  std::vector<Tensor> own, all;
  ShardedRequest request;
  std::vector<Tensor> total(mine.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Parameter& parameter = *trained_[places[i]];
    if (!sharding.is_home(parameter)) continue;
    const Tensor held =
        tensors.hold(std::move(summed.outputs[i + 1]), {DType::kFloat32, parameter.value.shape()}, placements[i + 1]);
    own.push_back(held);
    all.push_back(held * 1.0);
    const auto number = std::find_if(mine.begin(), mine.end(), [&](const auto& m) { return m.name == parameter.name; });
    total[static_cast<size_t>(number - mine.begin())] = all.back();
    request.outputs.push_back({all.back(), sharding.state_home_of(parameter)});
    request.preferred.emplace_back(all.back(), sharding.state_home_of(parameter));
  }
  request.consumed = own;
  const Tensor norm_here = all.empty() ? zeros({}, DType::kFloat32) : global_norm(all);
  const Tensor square = norm_here * norm_here;
  request.outputs.push_back({square, std::nullopt});
  std::vector<Tensor> made = sharding.evaluate(std::move(request), evaluation_);
  for (Tensor& gradient : total)
    for (size_t i = 0; i < all.size(); ++i)
      if (gradient.defined() && gradient.same_as(all[i])) {
        gradient = made[i];
        break;
      }

  // The sums over the stages.
  const bool has_loss = !summed.processes[0] || *summed.processes[0] == tensors.mesh().coordinate(MeshAxis::kPipeline);
  const Tensor loss_here = has_loss ? summed.outputs[0] : zeros({}, DType::kFloat32);
  Result result;
  {
    const CompilerScope compiler;
    Resharder resharder(tensors.mesh());
    Placement owed = replicated(1);
    owed.partial.add(MeshAxis::kPipeline);
    const Tensor both = concatenate({reshape(square, {1}), reshape(loss_here, {1})}, 0);
    const Tensor sums = resharder.reshard({both, {2}, owed}, replicated(1)).local;
    result.gradient_norm = sqrt(reshape(slice(sums, 0, 0, 1), {}));
    result.loss = summed.processes[0] ? reshape(slice(sums, 0, 1, 2), {}) : summed.outputs[0];
    eval({result.gradient_norm, result.loss});
  }

  // Each stage's update.
  std::vector<Tensor> clipped;
  for (const Tensor& gradient : total)
    if (gradient.defined()) clipped.push_back(gradient);
  ShardedRequest last;
  last.phases.update_from = 0;
  last.consumed = clipped;
  const std::vector<Tensor> held_gradients = total;
  if (arguments_.max_grad_norm > 0) {
    clipped = clip_by_norm(clipped, result.gradient_norm, arguments_.max_grad_norm);
    auto next = clipped.begin();
    for (Tensor& gradient : total)
      if (gradient.defined()) gradient = *next++;
  }
  const int64_t steps = optimizer_->steps();
  const std::vector<std::pair<std::string, Tensor>> state_before = optimizer_->state();
  const Tensor flag_before = finite_ ? finite_->flag()->value : Tensor();
  try {
    const Tensor applied = finite_ ? finite_->trace(result.loss, result.gradient_norm) : Tensor();
    if (finite_ && offloads_state_) {  // before the groups of parameters that need it
      ShardedRequest flag;
      flag.outputs = {{applied, std::nullopt}, {finite_->flag()->value, replicated(1)}};
      flag.replaced = {flag_before};
      finite_->flag()->value = sharding.evaluate(std::move(flag), evaluation_).back();
    }
    const std::vector<Tensor> next = optimizer_->step(mine, total, learning_rate, {}, applied);
    std::vector<std::shared_ptr<Parameter>> updated;
    for (const auto& parameter : trained_)
      if (sharding.is_home(*parameter)) updated.push_back(parameter);
    if (offloads_state_) {
      HeldUpdate held{
          .parameters = updated, .before = {}, .next = next, .gradients = held_gradients, .state_before = state_before};
      for (const OptimizedParameter& parameter : mine) held.before.push_back(parameter.value);
      update_in_groups(held);
      return result;
    }
    for (size_t i = 0; i < updated.size(); ++i) {
      last.replaced.push_back(mine[i].value);
      last.outputs.push_back({next[i], sharding.home_of(*updated[i]), sharding.stored_axes()});
    }
    for (size_t i = 0; i < state_before.size(); ++i) {
      const Tensor& old = state_before[i].second;
      last.replaced.push_back(old);
      last.outputs.push_back({optimizer_->state()[i].second, tensors.value(old).placement});
    }
    if (finite_) {
      last.replaced.push_back(flag_before);
      last.outputs.push_back({finite_->flag()->value, replicated(1)});
    }
    made = sharding.evaluate(std::move(last), evaluation_);
    if (finite_) finite_->flag()->value = made.back();
    for (size_t i = 0; i < updated.size(); ++i) {
      updated[i]->value = made[i];
      updated[i]->value.set_requires_grad();
    }
    std::vector<std::pair<std::string, Tensor>> state;
    for (size_t i = 0; i < state_before.size(); ++i)
      state.emplace_back(state_before[i].first, made[updated.size() + i]);
    optimizer_->restore(optimizer_->steps(), std::move(state));
  } catch (...) {
    optimizer_->restore(steps, state_before);
    if (finite_) finite_->flag()->value = flag_before;
    throw;
  }
  return result;
}

}  // namespace transom
