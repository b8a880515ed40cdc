// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/train_step.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "files/config/config.h"
#include "files/config/model_config.h"
#include "graph/ops/computing.h"
#include "graph/ops/movement/collectives.h"
#include "models/loading/adapters/adaptation.h"
#include "models/optim/rollback.h"
#include "runtime/device/communicator.h"
#include "runtime/distributed/process_group.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/compile.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/log/batch_measures.h"
#include "work/train/loop/parameter_check.h"
#include "work/train/setup/sharding_layout.h"
#include "work/train/step/gradient_buckets.h"
#include "work/train/step/model_loss.h"

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

// What a kind of adapters adds to training; null: nothing.
AdapterTraining* adapter_training_of(const Model& model) {
  return model.adaptation() ? model.adaptation()->training() : nullptr;
}

}  // namespace

Computing computing_of(const TrainingArguments& arguments, bool training) {
  return {.dtype = arguments.bf16 ? DType::kBFloat16 : DType::kFloat32,
          .tf32 = arguments.tf32.value_or(false),
          .max_predictions = training ? arguments.max_predictions_per_seq : 0};
}

TrainStep::TrainStep(Model& model, const TrainingArguments& arguments, bool counts_labels)
    : model_(model),
      arguments_(arguments),
      counts_labels_(counts_labels),
      objective_(std::make_shared<ModelLoss>(arguments, counts_labels)) {
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
  if (adapter_training_of(model) && (sharding_ || offloads_state_))
    fail(
        ErrorKind::kUnsupported,
        "peft_type {}: expected parameters that each process holds whole, found them sharded, or the optimizer's state "
        "offloaded",
        model.adaptation()->config().kind().type);
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
    result.push_back({parameter->name, parameter->value, !objective_->spares_from_decay(*parameter)});
  return result;
}

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
       .count_items = [&](const NamedTensors& inputs) { return objective_->count_items(model_, inputs); },
       .trace = trace});
}

Tensor TrainStep::evaluation_loss(const NamedTensors& inputs, NamedTensors* outputs) {
  ForwardContext context;
  if (!objective_->evaluates_over_processes()) return loss_of(inputs, context, outputs);
  const WholeBatch whole = whole_batch({inputs});
  LossDivisors divisors;
  whole.prepare(context, divisors);
  const Tensor loss = loss_of(inputs, context, outputs);
  return whole.scale == 1 ? loss : loss * whole.scale;
}

LossPass TrainStep::pass_of(const NamedTensors& inputs, ForwardContext& context) const {
  if (sharding_) sharding_->cut_rows(inputs);
  context.computing = joined(computing_of(arguments_, context.training), context.computing);
  context.computing.batch_invariant = context.computing.batch_invariant || objective_->keeps_rows_apart();
  return {.model = model_, .context = context, .rank = batch_rank(), .ranks = batch_ranks()};
}

Tensor TrainStep::loss_of(const NamedTensors& inputs, ForwardContext& context, NamedTensors* outputs) const {
  return cast(objective_->loss(pass_of(inputs, context), inputs, outputs), DType::kFloat32);
}

void TrainStep::set_objective(std::shared_ptr<Objective> objective) {
  const std::vector<std::shared_ptr<Parameter>> own = objective->parameters();
  objective->expect(sharding_ != nullptr, sharding_ && sharding_->stages());
  if (!own.empty() && sharding_)
    fail(ErrorKind::kUsage,
         "{}: belongs to the loss, and sharded runs train the model's parameters alone: leave out {}", own[0]->name,
         "--zero_stage, --fsdp, --tp_size and --pp_size");
  for (const auto& parameter : own) {
    parameter->value = Tensor::from_bytes(parameter->value.to_bytes(), parameter->value.type());
    parameter->value.set_requires_grad();
    trained_.push_back(parameter);
  }
  share(own);
  for (const auto& parameter : own) parameter->value.set_requires_grad();
  objective_ = std::move(objective);
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
  if (AdapterTraining* adapters = adapter_training_of(model_)) adapters->end_update(step);
  return result;
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
  std::vector<Tensor> statistics;
  for (const auto& buffer : model_.buffers()) statistics.push_back(buffer->value);
  SummedGradients summed = gradients_of(micro_batches, step);
  Tensor& loss = summed.loss;
  std::vector<Tensor>&total = summed.gradients, &measures = summed.measures;
  const int64_t processes = batch_ranks();

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
    for (Tensor& sums : measures) sums = sums * static_cast<double>(processes);
  }
  gradients_ = sharding_ ? total : std::vector<Tensor>();
  phases_.update_from = make_input({}).node()->sequence;
  std::map<size_t, RowGradient>& of_rows = summed.by_rows;
  const auto all_gradients = [&] {
    std::vector<Tensor> all;
    for (const Tensor& gradient : total)
      if (gradient.defined()) all.push_back(gradient);
    for (const auto& [number, gradient] : of_rows) all.push_back(gradient.rows);
    return all;
  };
  const Tensor norm = global_norm(all_gradients());
  for (Tensor& sums : measures) sums = objective_->measures()->values(sums);
  const Tensor measured = measures.empty() ? Tensor() : added_values(measures);
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
    if (measured.defined()) numbers.push_back(measured);
    compute_gradients(total, of_rows, numbers, flag_before);
    clip();
  }
  const std::vector<Tensor> next = optimizer_->step(before, total, learning_rate, of_rows, applied);
  for (size_t i = 0; i < next.size(); ++i) trained_[i]->value = next[i];
  if (AdapterTraining* adapters = adapter_training_of(model_)) {
    std::vector<Tensor> old;
    for (const auto& buffer : model_.buffers()) old.push_back(buffer->value);
    adapters->trace_update(trained_, total, step);
    for (size_t i = 0; applied.defined() && i < old.size(); ++i)
      if (Tensor& value = model_.buffers()[i]->value; !value.same_as(old[i])) value = select(applied, value, old[i]);
  }
  return {loss, norm, measured};
}

}  // namespace transom
