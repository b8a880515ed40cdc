// SPDX-License-Identifier: Apache-2.0
// From the micro-batches of an update to its summed gradient. Each is computed by itself, so that only one holds its
// activations.
#include "transom/gradients.h"
#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/distributed/seed.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"
#include "work/train/step/row_gradients.h"
#include "work/train/step/train_step.h"

namespace transom {

TrainStep::MicroBatch::MicroBatch(const TrainStep& step, const WholeBatch& whole, int64_t draw)
    // Each process has rows of its own, and draws of its own for them.
    : key_(Tensor::from(std::vector<int64_t>{seed_of_rank(step.arguments_.seed, step.batch_rank()), draw << 20}, {2})),
      noise_(step.noisy_, step.arguments_.neftune_noise_alpha.value_or(0), key_) {
  context.training = true;
  context.dropout_key = key_;
  context.gradient_checkpointing = step.arguments_.activation_checkpointing;
  context.buffer_updates = &buffer_updates;
  if (step.noisy_) context.computing.noise = &noise_;
  // The rows that processes use differ: they exchange whole tables.
  if (step.optimizer_->takes_rows() && step.batch_ranks() == 1 && !step.sharding_) context.computing.lookups = &lookups;
  whole.prepare(context, divisors_);
}

void TrainStep::MicroBatch::finish_pass() {
  for (const BufferUpdate& update : buffer_updates) update.buffer->value = update.value.detach();
  buffer_updates.clear();
}

TrainStep::SummedGradients TrainStep::gradients_of(const std::vector<NamedTensors>& micro_batches, int64_t step) {
  const std::vector<OptimizedParameter> before = parameters();
  std::vector<Tensor> values;
  for (const OptimizedParameter& parameter : before) values.push_back(parameter.value);
  const WholeBatch whole = whole_batch(micro_batches);
  const BatchMeasures* measured = objective_->measures();
  SummedGradients summed;
  RowGradients by_rows;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const NamedTensors& inputs = micro_batches[i];
    MicroBatch batch(*this, whole, draw_of(step, i));
    NamedTensors outputs;
    std::optional<LossInParts> cut;
    if (!sharding_) cut = objective_->in_parts(pass_of(inputs, batch.context), inputs);
    if (cut) outputs = cut->outputs;
    const size_t parts = cut ? cut->parts.size() : 1;
    for (size_t k = 0; k < parts; ++k) {
      Tensor part =
          cut ? cast(cut->parts[k](), DType::kFloat32) : loss_of(inputs, batch.context, measured ? &outputs : nullptr);
      if (whole.scale != 1) part = part * whole.scale;
      if (measured && k == 0) summed.measures.push_back(measured->sums(inputs, outputs));
      batch.finish_pass();
      phases_.backward_from = make_input({}).node()->sequence;
      const std::vector<Tensor> gradients = by_rows.take(part, values, before, std::exchange(batch.lookups, {}));
      const Tensor reported = !cut ? part.detach() : k > 0 ? Tensor() : cut->loss * whole.scale;
      if (!summed.loss.defined()) summed.loss = reported;
      else if (reported.defined()) summed.loss = summed.loss + reported;
      if (summed.gradients.empty()) summed.gradients = gradients;
      else
        for (size_t g = 0; g < gradients.size(); ++g)
          if (gradients[g].defined())
            summed.gradients[g] = summed.gradients[g].defined() ? summed.gradients[g] + gradients[g] : gradients[g];
      if (i + 1 == micro_batches.size() && k + 1 == parts) continue;
      std::vector<Tensor> others = by_rows.tensors();
      for (const auto& buffer : model_.buffers()) others.push_back(buffer->value);
      if (measured) others.push_back(summed.measures.back());
      compute_part(summed.gradients, summed.loss, others);
    }
  }
  summed.by_rows = by_rows.joined();
  return summed;
}

void TrainStep::compute_part(std::vector<Tensor>& gradients, Tensor& loss, const std::vector<Tensor>& others) {
  if (!sharding_) {
    std::vector<Tensor> now = others;
    for (const Tensor& gradient : gradients)
      if (gradient.defined()) now.push_back(gradient);
    now.push_back(loss);
    eval(now);
    return;
  }
  ShardedRequest request{.phases = {.backward_from = phases_.backward_from}};
  std::vector<size_t> places;
  for (size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    places.push_back(k);
    request.outputs.push_back({gradients[k], sharding_->accumulated_home_of(*trained_[k])});
    request.preferred.emplace_back(gradients[k], *request.outputs.back().placement);
  }
  request.outputs.push_back({loss, std::nullopt});
  for (const Tensor& other : others) request.outputs.push_back({other, std::nullopt});
  request.consumed = accumulated_;
  const std::vector<Tensor> results = sharding_->evaluate(std::move(request), evaluation_);
  accumulated_.clear();
  for (size_t i = 0; i < places.size(); ++i) accumulated_.push_back(gradients[places[i]] = results[i]);
}

}  // namespace transom
