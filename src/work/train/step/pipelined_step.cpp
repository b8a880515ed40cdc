// SPDX-License-Identifier: Apache-2.0
// One update of a model whose layers are spread over the stages of a pipeline: the micro-batches of the update go
// through the stages one behind the other, and each stage updates its own weights.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "models/sharding/pipeline/run.h"
#include "models/sharding/rewrite/reshard.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/step/train_step.h"

namespace transom {

namespace {

using Values = std::vector<Tensor>;
using State = std::vector<std::pair<std::string, Tensor>>;
using Parameters = std::vector<std::shared_ptr<Parameter>>;

// From the gradients of all passes to the update of this stage.
struct PipelinedUpdate {
  ModelSharding& sharding;
  StepRunner& evaluation;
  Optimizer& optimizer;
  FiniteUpdates* finite;  // null: every update is applied
  const Parameters& trained;
  const std::vector<OptimizedParameter>& mine;
  double max_gradient_norm;  // 0: none
  // Where the state lies in host memory: what does the update a few parameters at a time.
  std::function<void(const Parameters& updated, const Values& next, const Values& gradients, const State& before)>
      in_groups;
  std::vector<size_t> places{};         // of the parameters that have gradients
  std::vector<Placement> placements{};  // of what the passes give
  PipelineResult summed{};
  Values held{}, scaled{};  // this stage's gradients
  Values total{};           // the same by the numbers of `mine`
  Tensor square{};          // of their norm
  TrainStep::Result result{};

  void take_own_gradients();
  void sum_over_stages();
  void update(double learning_rate);
  // Throws where it fails; who called restores what was before.
  void apply(double learning_rate, ShardedRequest last, const Values& held_gradients, const State& state_before,
             const Tensor& flag_before);
};

// This stage's gradients, each where its state is, and their norm.
void PipelinedUpdate::take_own_gradients() {
  ShardedRequest request;
  total.resize(mine.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Parameter& parameter = *trained[places[i]];
    if (!sharding.is_home(parameter)) continue;
    held.push_back(sharding.tensors().hold(std::move(summed.outputs[i + 1]), {DType::kFloat32, parameter.value.shape()},
                                           placements[i + 1]));
    scaled.push_back(held.back() * 1.0);
    const auto number = std::find_if(mine.begin(), mine.end(), [&](const auto& m) { return m.name == parameter.name; });
    total[static_cast<size_t>(number - mine.begin())] = scaled.back();
    request.outputs.push_back({scaled.back(), sharding.state_home_of(parameter)});
    request.preferred.emplace_back(scaled.back(), sharding.state_home_of(parameter));
  }
  request.consumed = held;
  const Tensor norm_here = scaled.empty() ? zeros({}, DType::kFloat32) : global_norm(scaled);
  square = norm_here * norm_here;
  request.outputs.push_back({square, std::nullopt});
  const Values made = sharding.evaluate(std::move(request), evaluation);
  for (Tensor& gradient : total)
    for (size_t i = 0; i < scaled.size(); ++i)
      if (gradient.defined() && gradient.same_as(scaled[i])) {
        gradient = made[i];
        break;
      }
}

void PipelinedUpdate::sum_over_stages() {
  const bool has_loss =
      !summed.processes[0] || *summed.processes[0] == sharding.tensors().mesh().coordinate(MeshAxis::kPipeline);
  const Tensor loss_here = has_loss ? summed.outputs[0] : zeros({}, DType::kFloat32);
  const CompilerScope compiler;
  Resharder resharder(sharding.tensors().mesh());
  Placement owed = replicated(1);
  owed.partial.add(MeshAxis::kPipeline);
  const Tensor both = concatenate({reshape(square, {1}), reshape(loss_here, {1})}, 0);
  const Tensor sums = resharder.reshard({both, {2}, owed}, replicated(1)).local;
  result.gradient_norm = sqrt(reshape(slice(sums, 0, 0, 1), {}));
  result.loss = summed.processes[0] ? reshape(slice(sums, 0, 1, 2), {}) : summed.outputs[0];
  eval({result.gradient_norm, result.loss});
}

// Each stage's update.
void PipelinedUpdate::update(double learning_rate) {
  Values clipped;
  for (const Tensor& gradient : total)
    if (gradient.defined()) clipped.push_back(gradient);
  ShardedRequest last;
  last.phases.update_from = 0;
  last.consumed = clipped;
  const Values held_gradients = total;
  if (max_gradient_norm > 0) {
    clipped = clip_by_norm(clipped, result.gradient_norm, max_gradient_norm);
    auto next = clipped.begin();
    for (Tensor& gradient : total)
      if (gradient.defined()) gradient = *next++;
  }
  const int64_t steps = optimizer.steps();
  const State state_before = optimizer.state();
  const Tensor flag_before = finite ? finite->flag()->value : Tensor();
  try {
    apply(learning_rate, std::move(last), held_gradients, state_before, flag_before);
  } catch (...) {
    optimizer.restore(steps, state_before);
    if (finite) finite->flag()->value = flag_before;
    throw;
  }
}

void PipelinedUpdate::apply(double learning_rate, ShardedRequest last, const Values& held_gradients,
                            const State& state_before, const Tensor& flag_before) {
  const Tensor applied = finite ? finite->trace(result.loss, result.gradient_norm) : Tensor();
  if (finite && in_groups) {  // before the groups of parameters that need it
    ShardedRequest flag;
    flag.outputs = {{applied, std::nullopt}, {finite->flag()->value, replicated(1)}};
    flag.replaced = {flag_before};
    finite->flag()->value = sharding.evaluate(std::move(flag), evaluation).back();
  }
  const Values next = optimizer.step(mine, total, learning_rate, {}, applied);
  Parameters updated;
  for (const auto& parameter : trained)
    if (sharding.is_home(*parameter)) updated.push_back(parameter);
  if (in_groups) return in_groups(updated, next, held_gradients, state_before);
  for (size_t i = 0; i < updated.size(); ++i) {
    last.replaced.push_back(mine[i].value);
    last.outputs.push_back({next[i], sharding.home_of(*updated[i]), sharding.stored_axes()});
  }
  for (size_t i = 0; i < state_before.size(); ++i) {
    const Tensor& old = state_before[i].second;
    last.replaced.push_back(old);
    last.outputs.push_back({optimizer.state()[i].second, sharding.tensors().value(old).placement});
  }
  if (finite) {
    last.replaced.push_back(flag_before);
    last.outputs.push_back({finite->flag()->value, replicated(1)});
  }
  const Values made = sharding.evaluate(std::move(last), evaluation);
  if (finite) finite->flag()->value = made.back();
  for (size_t i = 0; i < updated.size(); ++i) {
    updated[i]->value = made[i];
    updated[i]->value.set_requires_grad();
  }
  State state;
  for (size_t i = 0; i < state_before.size(); ++i) state.emplace_back(state_before[i].first, made[updated.size() + i]);
  optimizer.restore(optimizer.steps(), std::move(state));
}

}  // namespace

TrainStep::Result TrainStep::pipelined_step(const std::vector<NamedTensors>& micro_batches, double learning_rate,
                                            int64_t step) {
  const ModeScope traced_only(Mode::kLazy);
  ModelSharding& sharding = *sharding_;
  const std::vector<OptimizedParameter> mine = sharding.at_home(parameters());
  sharding.initialise(*optimizer_, mine);
  PipelinedUpdate update{.sharding = sharding,
                         .evaluation = evaluation_,
                         .optimizer = *optimizer_,
                         .finite = finite_.get(),
                         .trained = trained_,
                         .mine = mine,
                         .max_gradient_norm = arguments_.max_grad_norm,
                         .in_groups = {}};
  if (offloads_state_)
    update.in_groups = [&](const Parameters& updated, const Values& next, const Values& found, const State& before) {
      HeldUpdate held{.parameters = updated, .before = {}, .next = next, .gradients = found, .state_before = before};
      for (const OptimizedParameter& parameter : mine) held.before.push_back(parameter.value);
      update_in_groups(held);
    };

  // All micro-batches as graphs; nothing is computed yet.
  const WholeBatch whole = whole_batch(micro_batches);
  std::vector<Tensor> values;
  for (const auto& parameter : trained_) values.push_back(parameter->value);
  std::vector<PipelinedBatch> batches;
  std::vector<size_t>& places = update.places;
  std::vector<size_t> places_of_first;
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
    update.placements = traced.placements;
    for (size_t k = 0; k < places.size(); ++k) traced.batch.homes[k + 1] = sharding.stage_of(*trained_[places[k]]);
    batches.push_back(std::move(traced.batch));
  }
  update.summed = sharding.run(batches, /*backward=*/true);
  batches.clear();

  const NoGradient outside_of_passes;
  update.take_own_gradients();
  update.sum_over_stages();
  update.update(learning_rate);
  return update.result;
}

}  // namespace transom
