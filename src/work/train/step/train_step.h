// SPDX-License-Identifier: Apache-2.0
// One update of a model: micro-batches to a summed gradient, clipping, and the optimizer, run as few programs as it
// takes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/nn/noisy_embedding.h"
#include "models/nn/sparse_lookups.h"
#include "models/optim/optimizer.h"
#include "models/optim/rollback.h"
#include "models/sharding/model_sharding.h"
#include "runtime/tensor/evaluate.h"
#include "transom/model.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"
#include "work/train/step/finite_updates.h"
#include "work/train/step/objective.h"
#include "work/train/step/row_gradients.h"
#include "work/train/step/whole_batch.h"

namespace transom {

class TrainStep {
 public:
  // Trains the parameters that require gradients; the others are left as they are.
  // `counts_labels`: losses are divided by the number of labels as Trainer counts them; false: the model's own mean.
  TrainStep(Model& model, const TrainingArguments& arguments, bool counts_labels = true);

  struct Result {
    Tensor loss;           // the sum of the micro-batches' losses, f32 []
    Tensor gradient_norm;  // before clipping, f32 []
    Tensor measures;       // see added_values, f32 [2, names]; empty where nothing is measured
  };
  const Model& model() const { return model_; }
  Model& model() { return model_; }
  // Updates the model's parameters. `step` counts updates from 0 and sets the dropout draws.
  Result operator()(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step);

  // From now on an update whose gradient norm is NaN or infinite is not applied, nor is any behind it: parameters,
  // buffers and the optimizer's state stay as they are until take_back(). `or_loss`: the same of its loss. Finite
  // updates have the same bits as without, and the host waits for none.
  void refuse_updates_that_are_not_finite(bool or_loss);
  // Whether an update that gave these numbers is refused.
  bool refuses(double loss, double gradient_norm) const { return finite_ && finite_->refuses(loss, gradient_norm); }
  // A run begins: what an earlier one left unread refuses nothing of this one.
  void begin_run();
  // The last updates, so many, were refused, since the first of them was: the optimizer's count of steps is that of
  // before them, and the next update is applied if it is finite.
  void take_back(int64_t updates);

  // Before the first update: what is minimised in place of the model's own loss (ModelLoss). Its parameters are trained
  // too.
  void set_objective(std::shared_ptr<Objective> objective);
  Objective& objective() { return *objective_; }
  const Objective& objective() const { return *objective_; }

  Optimizer& optimizer() { return *optimizer_; }
  std::vector<OptimizedParameter> parameters() const;

  // Takes the buffers (running statistics) of rank 0, where several processes train; each updates its own.
  void share_buffers();

  // The loss of a batch that all processes evaluate together, each its rows; the mean over processes is that of all.
  Tensor evaluation_loss(const NamedTensors& inputs, NamedTensors* outputs);
  // The objective of a batch in the arguments' precision, f32 [].
  Tensor loss_of(const NamedTensors& inputs, ForwardContext& context, NamedTensors* outputs = nullptr) const;
  // The outputs alone, for batches without labels.
  NamedTensors forward(const NamedTensors& inputs) const;
  // Computes what loss_of, evaluation_loss and forward gave, before another batch is begun.
  void compute(const std::vector<Tensor>& tensors);

  // Null where each process has the whole model. With one, a batch is that of all processes, and each of them is given
  // all of its rows.
  ModelSharding* sharding() { return sharding_.get(); }
  // Who share the batches of an epoch, each taking some of them: all processes, or one that stands for all.
  int64_t batch_ranks() const;
  int64_t batch_rank() const;
  // How many batches of the size of a device one batch has.
  int64_t devices_of_batch() const { return sharding_ ? sharding_->row_parts() : 1; }
  // Values that were loaded whole are put where they belong.
  void take_loaded_values();
  // A value of the optimizer's state that was read from a file, where the state lies between updates.
  Tensor loaded_state(std::span<const std::byte> bytes, const Type& type) const;

 private:
  // What one micro-batch is computed under. It outlives what is traced of it.
  class MicroBatch {
   public:
    MicroBatch(const TrainStep& step, const WholeBatch& whole, int64_t draw);
    MicroBatch(const MicroBatch&) = delete;
    MicroBatch& operator=(const MicroBatch&) = delete;
    // Buffers take the values that a pass gave them.
    void finish_pass();

    ForwardContext context;
    std::vector<BufferUpdate> buffer_updates;
    std::vector<SparseLookup> lookups;

   private:
    Tensor key_;
    NoisyEmbedding noise_;
    LossDivisors divisors_;
  };
  static int64_t draw_of(int64_t step, size_t micro_batch) { return step * 4096 + static_cast<int64_t>(micro_batch); }
  struct SummedGradients {
    Tensor loss;
    std::vector<Tensor> gradients;          // undefined where there is none, or by rows
    std::map<size_t, RowGradient> by_rows;  // by the numbers of the parameters
    std::vector<Tensor> measures;           // BatchMeasures::sums of each micro-batch
  };
  // All micro-batches but the last are computed; that is traced.
  SummedGradients gradients_of(const std::vector<NamedTensors>& micro_batches, int64_t step);
  LossPass pass_of(const NamedTensors& inputs, ForwardContext& context) const;
  // What makes the losses of these, and of those of other processes, the loss of one batch.
  WholeBatch whole_batch(const std::vector<NamedTensors>& micro_batches);
  void share(const std::vector<std::shared_ptr<Parameter>>& values);
  // What a step replaces beside parameters and the optimizer's state.
  std::vector<std::shared_ptr<Parameter>> replaced_buffers() const;
  Result trace(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step);
  Result sharded_step(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step);
  Result pipelined_step(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step);
  // Where the optimizer's state lies in host memory (see offloaded_update.cpp): gradients and what the host is told are
  // computed first, and then the update, a few parameters at a time.
  Result offloaded_step(const std::vector<NamedTensors>& micro_batches, double learning_rate, int64_t step);
  void move_state_to_host();
  void compute_gradients(std::vector<Tensor>& gradients, std::map<size_t, RowGradient>& by_rows,
                         const std::vector<Tensor>& numbers, const Tensor& flag_before);
  void update_in_groups(const Rollback& before);
  // The same of parameters that are spread over processes: their values and states before, and the gradients, which
  // are held and let go.
  struct HeldUpdate {
    std::vector<std::shared_ptr<Parameter>> parameters;
    std::vector<Tensor> before, next, gradients;
    std::vector<std::pair<std::string, Tensor>> state_before;
  };
  void update_in_groups(const HeldUpdate& update);
  // Computes the gradients of a micro-batch, and the sum of losses so far, before the next one.
  void compute_part(std::vector<Tensor>& gradients, Tensor& loss, const std::vector<Tensor>& others);
  Model& model_;
  std::vector<std::shared_ptr<Parameter>> trained_;
  std::shared_ptr<Parameter> noisy_;  // the table of tokens that NEFTune disturbs; null without it
  TrainingArguments arguments_;
  bool counts_labels_;
  bool offloads_state_ = false;
  std::shared_ptr<Objective> objective_;
  std::unique_ptr<Optimizer> optimizer_;
  StepRunner evaluation_;
  std::unique_ptr<ModelSharding> sharding_;
  std::unique_ptr<FiniteUpdates> finite_;  // null: every update is applied
  // Of the step that is traced:
  StepPhases phases_;
  // By parameter, before they are clipped, and what micro-batches before the last one gave of them; where sharded.
  std::vector<Tensor> gradients_, accumulated_;
};

// What passes are computed under, as the arguments ask for.
Computing computing_of(const TrainingArguments& arguments, bool training);

// Whether weight decay spares a parameter, as Trainer decides it: biases and norms by their names, and layer norms
// whatever they are called.
bool is_spared_from_decay(const Parameter& parameter);

}  // namespace transom
