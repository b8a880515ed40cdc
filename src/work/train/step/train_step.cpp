// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/train_step.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "graph/ops/computing.h"
#include "graph/ops/movement/collectives.h"
#include "models/nn/losses/losses.h"
#include "models/nn/noisy_embedding.h"
#include "models/nn/sparse_lookups.h"
#include "models/optim/rollback.h"
#include "models/records.h"
#include "runtime/device/communicator.h"
#include "runtime/distributed/process_group.h"
#include "runtime/distributed/seed.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/batch.h"
#include "transom/compile.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/log/batch_measures.h"
#include "work/train/loop/parameter_check.h"
#include "work/train/setup/sharding_layout.h"
#include "work/train/step/gradient_buckets.h"
#include "work/train/step/row_gradients.h"

namespace transom {

bool is_spared_from_decay(const Parameter& parameter) {
  std::string lower = parameter.name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (parameter.of_layer_norm) return true;
  for (const char* part : {"bias", "layernorm", "rmsnorm"})
    if (lower.find(part) != lower.npos) return true;
  // A module called norm, or something_norm; batch norms with other names are not spared.
  lower = "." + lower + ".";
  return lower.find(".norm.") != lower.npos || lower.find("_norm.") != lower.npos;
}

namespace {

// The table that token ids are looked up in: the first with a row for each of them.
std::shared_ptr<Parameter> token_embeddings(const Model& model) {
  const int64_t vocabulary = text_config_of(model.config()).get_int("vocab_size", -1);
  for (const auto& parameter : model.parameters())
    if (parameter->value.rank() == 2 && parameter->value.dim(0) == vocabulary) return parameter;
  fail(ErrorKind::kUsage, "neftune_noise_alpha: {} has no embeddings of tokens", model.architecture());
}

// What the arguments ask for.
Computing computing_of(const TrainingArguments& arguments, bool training) {
  return {.dtype = arguments.bf16 ? DType::kBFloat16 : DType::kFloat32,
          .tf32 = arguments.tf32.value_or(false),
          .max_predictions = training ? arguments.max_predictions_per_seq : 0};
}

}  // namespace

TrainStep::TrainStep(Model& model, const TrainingArguments& arguments, bool counts_labels)
    : model_(model), arguments_(arguments), counts_labels_(counts_labels) {
  optimizer_ = make_optimizer({.name = arguments.optim,
                               .weight_decay = arguments.weight_decay,
                               .beta1 = arguments.adam_beta1,
                               .beta2 = arguments.adam_beta2,
                               .epsilon = arguments.adam_epsilon,
                               .settings = arguments.optim_args.value_or("")});
  const ShardingLayout layout = sharding_layout(arguments, process_count());
  offloads_state_ = layout.offloads_state;
  const bool shards = process_count() > 1 && layout.shards();
  // Weights that lie in a file count as frozen, and a device may pack what never changes. These will change: as values
  // of their own they give the first step the program, and the memory to write into, that all others have. Where they
  // are spread over processes, each copies its parts alone, and no process ever has the whole model.
  for (const auto& parameter : model_.parameters()) {
    if (!parameter->value.requires_grad()) continue;
    trained_.push_back(parameter);
    if (shards || buffer_of(parameter->value)->is_writable()) continue;
    parameter->value = Tensor::from_bytes(parameter->value.to_bytes(), parameter->value.type());
    parameter->value.set_requires_grad();
  }
  if (shards) expect_equal_weights(model_);
  else share(trained_);
  share_buffers();
  if (shards) sharding_ = std::make_unique<ModelSharding>(model_, layout, process_rank(), process_count());
  if (arguments.neftune_noise_alpha.value_or(0) > 0) noisy_ = token_embeddings(model);
}

// Rank 0's values become those of all.
void TrainStep::share(const std::vector<std::shared_ptr<Parameter>>& values) {
  Communicator* group = default_device()->communicator();
  if (!group || values.empty()) return;
  for (const auto& item : values) {
    // What lies in a file is not to be written.
    if (!buffer_of(item->value)->is_writable())
      item->value = Tensor::from_bytes(item->value.to_bytes(), item->value.type());
    group->start_broadcast(*buffer_of(item->value), item->value.dtype());
  }
  group->wait();
}

void TrainStep::share_buffers() { share(model_.buffers()); }

std::vector<OptimizedParameter> TrainStep::parameters() const {
  std::vector<OptimizedParameter> result;
  for (const auto& parameter : trained_)
    result.push_back({parameter->name, parameter->value, !is_spared_from_decay(*parameter)});
  return result;
}

namespace {

// Trainer's LabelSmoother: a part of the loss is the mean over all classes.
Tensor smoothed_loss(const Tensor& logits, const Tensor& labels, double smoothing, const ForwardContext& context) {
  const int64_t classes = logits.dim(-1);
  const Tensor rows = cast(reshape(logits, {-1, classes}), DType::kFloat32), flat = reshape(labels, {-1});
  const Tensor counted = cast(not_equal(flat, full(flat.shape(), -100, DType::kInt64)), DType::kFloat32);
  const Tensor uniform = -(mean(log_softmax(rows, kAsGiven), {-1}) * counted);
  const Tensor total =
      sum(cross_entropy(rows, flat, kIgnoredLabel, kAsGiven)) * (1 - smoothing) + sum(uniform) * smoothing;
  const Tensor& items = context.num_items_in_batch;
  return items.defined() ? total / items : mean_of(total, sum(counted), context);
}

bool predicts_next_token(const Model& model) {
  const Architecture* known = find_architecture(model);
  return known && *known->head.task == HeadTask::kCausalLM;
}

// What Trainer divides a loss by that it does not leave to the labels which the loss itself counts: f32 []. Empty for
// all others, and without labels. The device counts, since who reads labels waits for all that is computed before.
Tensor count_items(const Model& model, const NamedTensors& inputs) {
  const Architecture* known = find_architecture(model);
  if (!known || known->head.divisor != LossDivisor::kAllLabels) return {};
  const Tensor labels = inputs.find("labels");
  if (!labels.defined() || !is_integer(labels.dtype())) return {};
  const NoGradient only_numbers;
  const Tensor ids = cast(labels, DType::kInt64);
  return sum(cast(not_equal(ids, full(ids.shape(), kIgnoredLabel, DType::kInt64)), DType::kFloat32));
}

}  // namespace

WholeBatch TrainStep::whole_batch(const std::vector<NamedTensors>& micro_batches) {
  const bool over_processes = !sharding_ && arguments_.average_tokens_across_devices && counts_labels_;
  const auto trace = [&](const NamedTensors& inputs, LossDivisors& divisors) {
    ForwardContext context{.training = true, .loss_divisors = &divisors};
    context.dropout_key = Tensor::from(std::vector<int64_t>{0, 0}, {2});
    loss_of(inputs, context);
  };
  return whole_batch_of(
      {.micro_batches = micro_batches,
       .group = over_processes ? process_group() : nullptr,
       .count_items =
           [&](const NamedTensors& inputs) { return counts_labels_ ? count_items(model_, inputs) : Tensor(); },
       .trace = trace});
}

Tensor TrainStep::evaluation_loss(const NamedTensors& inputs, NamedTensors* outputs) {
  // Runs that are measured are TRL's, whose evaluations divide by the labels that are predicted: the model's own mean.
  // Trainer counts the first label of each row too for some classes.
  if (measures_) return loss_of(inputs, {}, outputs);
  const WholeBatch whole = whole_batch({inputs});
  ForwardContext context;
  LossDivisors divisors;
  whole.prepare(context, divisors);
  const Tensor loss = loss_of(inputs, context, outputs);
  return whole.scale == 1 ? loss : loss * whole.scale;
}

Tensor TrainStep::loss_of(const NamedTensors& inputs, ForwardContext context, NamedTensors* outputs) const {
  if (sharding_) sharding_->cut_rows(inputs);
  context.return_loss = true;
  context.computing = joined(computing_of(arguments_, context.training), context.computing);
  const NamedTensors result = model_.forward(inputs, context);
  Tensor loss = result.find("loss");
  if (!loss.defined())
    fail("the model gave no loss: the batch has no labels; it has: {}", [&] {
      std::string names;
      for (const auto& [name, tensor] : inputs.items()) names += (names.empty() ? "" : ", ") + name;
      return names;
    }());
  const Tensor labels = inputs.find("labels"), logits = result.find("logits");
  const bool causal = predicts_next_token(model_);
  if (arguments_.label_smoothing_factor > 0 && labels.defined() && logits.defined() && is_integer(labels.dtype()))
    loss = causal ? smoothed_loss(slice(logits, 1, 0, logits.dim(1) - 1), slice(labels, 1, 1, labels.dim(1)),
                                  arguments_.label_smoothing_factor, context)
                  : smoothed_loss(logits, labels, arguments_.label_smoothing_factor, context);
  if (distillation_ && context.training) loss = distillation_->loss(loss, inputs, result, causal, context);
  if (outputs) *outputs = result;
  return cast(loss, DType::kFloat32);
}

NamedTensors TrainStep::forward(const NamedTensors& inputs) const {
  if (sharding_) sharding_->cut_rows(inputs);
  return model_.forward(inputs, {.computing = computing_of(arguments_, false)});
}

void TrainStep::compute(const std::vector<Tensor>& tensors) {
  if (sharding_) sharding_->compute(tensors);
  else eval(tensors);
}

int64_t TrainStep::batch_ranks() const { return sharding_ ? 1 : process_count(); }
int64_t TrainStep::batch_rank() const { return sharding_ ? 0 : process_rank(); }

void TrainStep::take_loaded_values() {
  if (!sharding_) return;
  sharding_->take(optimizer_.get(), parameters());
  if (finite_) finite_->reset();  // what is held for no parameter is let go
}

void TrainStep::refuse_updates_that_are_not_finite(bool or_loss) {
  finite_ = std::make_unique<FiniteUpdates>(or_loss ? FiniteUpdates::Of::kNormAndLoss : FiniteUpdates::Of::kNorm,
                                            sharding_.get());
}

void TrainStep::begin_run() {
  if (finite_) finite_->reset();
}

void TrainStep::take_back(int64_t updates) {
  optimizer_->restore(optimizer_->steps() - updates, optimizer_->state());
  finite_->reset();
}

std::vector<std::shared_ptr<Parameter>> TrainStep::replaced_buffers() const {
  std::vector<std::shared_ptr<Parameter>> all = model_.buffers();
  if (finite_) all.push_back(finite_->flag());
  return all;
}

TrainStep::Result TrainStep::operator()(const std::vector<NamedTensors>& micro_batches, double learning_rate,
                                        int64_t step) {
  for (const auto& parameter : trained_)
    if (parameter->value.dtype() != DType::kFloat32)
      fail("{}: expected weights of float32 to train, found {}; load the model with dtype float32", parameter->name,
           name_of(parameter->value.dtype()));
  if (sharding_ && sharding_->stages()) return pipelined_step(micro_batches, learning_rate, step);
  if (sharding_) return sharded_step(micro_batches, learning_rate, step);
  if (offloads_state_) return offloaded_step(micro_batches, learning_rate, step);
  // Before what is held for a failure, so that the first step has the program of all others.
  optimizer_->initialise(parameters());
  Rollback before(trained_, replaced_buffers(), *optimizer_);
  Result result = trace(micro_batches, learning_rate, step);
  // By now only the graph and `before` hold the old parameters: the new ones take their memory.
  std::vector<Tensor> everything{result.loss, result.gradient_norm};
  if (result.measures.defined()) everything.push_back(result.measures);
  for (const auto& parameter : trained_) everything.push_back(parameter->value);
  for (const auto& buffer : replaced_buffers()) everything.push_back(buffer->value);
  for (const auto& [name, state] : optimizer_->state()) everything.push_back(state);
  evaluation_(everything, [&](const auto& buffer) { return before.references_to(buffer); });
  before.discard();
  for (const auto& parameter : trained_) parameter->value.set_requires_grad();
  return result;
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

// As the step of one process, over the whole batch; the sharding finds what is whose.
TrainStep::Result TrainStep::sharded_step(const std::vector<NamedTensors>& micro_batches, double learning_rate,
                                          int64_t step) {
  const ModeScope traced(mode() == Mode::kGraph && !offloads_state_ ? Mode::kGraph : Mode::kLazy);
  sharding_->initialise(*optimizer_, parameters());
  std::vector<Tensor> before, buffers_before;
  for (const auto& parameter : trained_) before.push_back(parameter->value);
  for (const auto& buffer : replaced_buffers()) buffers_before.push_back(buffer->value);
  const int64_t steps = optimizer_->steps();
  const std::vector<std::pair<std::string, Tensor>> state_before = optimizer_->state();
  gradients_.clear();
  accumulated_.clear();
  Result result;
  try {
    result = trace(micro_batches, learning_rate, step);
    if (offloads_state_) {
      HeldUpdate update{.parameters = trained_, .before = before, .next = {}, .gradients = {}, .state_before = {}};
      for (const auto& parameter : trained_) update.next.push_back(parameter->value);
      update.gradients = std::exchange(gradients_, {});
      update.state_before = state_before;
      update_in_groups(update);
      return result;
    }
    ShardedRequest request{.phases = phases_};
    request.outputs = {{result.loss, std::nullopt}, {result.gradient_norm, std::nullopt}};
    request.replaced = before;
    request.consumed = std::exchange(accumulated_, {});
    for (const auto& parameter : trained_)
      request.outputs.push_back({parameter->value, sharding_->home_of(*parameter), sharding_->stored_axes()});
    for (size_t i = 0; i < state_before.size(); ++i) {
      const Tensor& old = state_before[i].second;
      request.replaced.push_back(old);
      request.outputs.push_back({optimizer_->state()[i].second, sharding_->tensors().value(old).placement});
    }
    if (finite_) {
      request.replaced.push_back(buffers_before.back());
      request.outputs.push_back({finite_->flag()->value, replicated(1)});
    }
    for (const auto& buffer : model_.buffers()) request.outputs.push_back({buffer->value, std::nullopt});
    for (size_t k = 0; k < gradients_.size(); ++k)
      if (gradients_[k].defined())
        request.preferred.emplace_back(gradients_[k], sharding_->state_home_of(*trained_[k]));
    gradients_.clear();
    if (result.measures.defined()) request.outputs.push_back({result.measures, std::nullopt});
    const std::vector<Tensor> made = sharding_->evaluate(std::move(request), evaluation_);
    size_t next = 2;
    for (const auto& parameter : trained_) {
      parameter->value = made[next++];
      parameter->value.set_requires_grad();
    }
    std::vector<std::pair<std::string, Tensor>> state;
    for (const auto& [name, old] : state_before) state.emplace_back(name, made[next++]);
    if (finite_) finite_->flag()->value = made[next++];
    optimizer_->restore(optimizer_->steps(), std::move(state));
  } catch (...) {
    for (size_t i = 0; i < trained_.size(); ++i) trained_[i]->value = before[i];
    for (size_t i = 0; i < buffers_before.size(); ++i) replaced_buffers()[i]->value = buffers_before[i];
    optimizer_->restore(steps, state_before);
    throw;
  }
  return result;
}

TrainStep::Result TrainStep::trace(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step) {
  const std::vector<OptimizedParameter> before = parameters();
  std::vector<Tensor> values;
  for (const OptimizedParameter& parameter : before) values.push_back(parameter.value);
  std::vector<Tensor> statistics;
  for (const auto& buffer : model_.buffers()) statistics.push_back(buffer->value);

  const WholeBatch whole = whole_batch(micro_batches);
  const int64_t processes = batch_ranks(), rank = batch_rank();
  Tensor loss;
  std::vector<Tensor> total;
  RowGradients by_rows;
  std::vector<Tensor> measures;  // of each micro-batch
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    std::vector<BufferUpdate> buffer_updates;
    ForwardContext context{.training = true,
                           .gradient_checkpointing = arguments_.activation_checkpointing,
                           .buffer_updates = &buffer_updates};
    const int64_t draw = step * 4096 + static_cast<int64_t>(i);
    // Each process has rows of its own, and draws of its own for them.
    context.dropout_key = Tensor::from(std::vector<int64_t>{seed_of_rank(arguments_.seed, rank), draw << 20}, {2});
    NoisyEmbedding noise(noisy_, arguments_.neftune_noise_alpha.value_or(0), context.dropout_key);
    if (noisy_) context.computing.noise = &noise;
    std::vector<SparseLookup> lookups;
    // The rows that processes use differ: they exchange whole tables.
    if (optimizer_->takes_rows() && processes == 1 && !sharding_) context.computing.lookups = &lookups;
    LossDivisors divisors;
    whole.prepare(context, divisors);
    NamedTensors outputs;
    Tensor part = loss_of(micro_batches[i], context, measures_ ? &outputs : nullptr);
    if (whole.scale != 1) part = part * whole.scale;
    if (measures_) measures.push_back(measures_->sums(micro_batches[i], outputs));
    for (const BufferUpdate& update : buffer_updates) update.buffer->value = update.value.detach();
    phases_.backward_from = make_input({}).node()->sequence;
    const std::vector<Tensor> gradients = by_rows.take(part, values, before, lookups);
    loss = loss.defined() ? loss + part.detach() : part.detach();
    if (total.empty()) total = gradients;
    else
      for (size_t k = 0; k < total.size(); ++k)
        if (total[k].defined()) total[k] = total[k] + gradients[k];
    if (i + 1 < micro_batches.size()) {
      // Run each micro-batch by itself, so that only one holds its activations.
      std::vector<Tensor> others = by_rows.tensors();
      for (const auto& buffer : model_.buffers()) others.push_back(buffer->value);
      if (measures_) others.push_back(measures.back());
      compute_part(total, loss, others);
    }
  }

  const NoGradient update;
  if (processes > 1) {
    // They are ready before all gradients, and their means are what all processes report.
    total.insert(total.end(), measures.begin(), measures.end());
    total.push_back(loss);
    total = mean_over_processes(total, arguments_.ddp_bucket_cap_mb.value_or(25));
    loss = total.back();
    total.pop_back();
    measures.assign(total.end() - static_cast<std::ptrdiff_t>(measures.size()), total.end());
    total.resize(total.size() - measures.size());
  }
  gradients_ = sharding_ ? total : std::vector<Tensor>();
  phases_.update_from = make_input({}).node()->sequence;
  std::map<size_t, RowGradient> of_rows = by_rows.joined();
  const auto all_gradients = [&] {
    std::vector<Tensor> all;
    for (const Tensor& gradient : total)
      if (gradient.defined()) all.push_back(gradient);
    for (const auto& [number, gradient] : of_rows) all.push_back(gradient.rows);
    return all;
  };
  const Tensor norm = global_norm(all_gradients());
  const Tensor mean_of_measures = measures.empty() ? Tensor() : mean_measures(measures);
  const auto clip = [&] {
    if (arguments_.max_grad_norm <= 0) return;
    const std::vector<Tensor> all = clip_by_norm(all_gradients(), norm, arguments_.max_grad_norm);
    auto clipped = all.begin();
    for (Tensor& gradient : total)
      if (gradient.defined()) gradient = *clipped++;
    for (auto& [number, gradient] : of_rows) gradient.rows = *clipped++;
  };
  if (!offloads_state_) clip();
  const Tensor flag_before = finite_ ? finite_->flag()->value : Tensor();
  Tensor applied;
  if (finite_) {
    applied = finite_->trace(loss, norm);
    for (size_t i = 0; i < statistics.size(); ++i) {
      Tensor& value = model_.buffers()[i]->value;
      if (!value.same_as(statistics[i])) value = select(applied, value, statistics[i]);
    }
  }
  if (offloads_state_) {
    std::vector<Tensor> numbers{loss, norm};
    if (applied.defined()) numbers.push_back(applied);
    if (mean_of_measures.defined()) numbers.push_back(mean_of_measures);
    compute_gradients(total, of_rows, numbers, flag_before);
    clip();
  }
  const std::vector<Tensor> next = optimizer_->step(before, total, learning_rate, of_rows, applied);
  for (size_t i = 0; i < next.size(); ++i) trained_[i]->value = next[i];
  return {loss, norm, mean_of_measures};
}

}  // namespace transom
