// SPDX-License-Identifier: Apache-2.0
// Trainer: fine-tunes a model as Transformers' Trainer does: the same order of samples, learning rates, log and files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "transom/batch.h"
#include "transom/model.h"
#include "transom/trainer_state.h"
#include "transom/training_arguments.h"

namespace transom {

using Metrics = std::vector<std::pair<std::string, double>>;

// Rows for training or evaluation, and the function that makes batches of them. A thread of the run calls `batch` and
// `augment` ahead of the model, one call at a time.
struct TrainingData {
  int64_t rows = 0;
  std::function<Batch(const std::vector<int64_t>& rows)> batch;
  std::vector<int64_t> lengths;  // in tokens; for group_by_length
  // The batches of an epoch with so many rows each, by the numbers of their rows: as many in each epoch. Processes take
  // them in turn. Empty: those of train_sampling_strategy.
  std::function<std::vector<std::vector<int64_t>>(int64_t epoch, int64_t batch_size)> epoch_batches;
  // Changes a batch at random (masks tokens) if it is set. `draw` is the number of the batch in the run, so that a
  // resumed run draws the same; batches of an evaluation are numbered from kEvaluationDraw each time.
  std::function<void(Batch& batch, uint64_t draw)> augment;
  static constexpr uint64_t kEvaluationDraw = uint64_t{1} << 63;
};

// The outputs of the model for a whole data set, row by row.
struct Predictions {
  struct Array {
    std::string name;
    Shape shape;  // rows first; sequences padded to the longest with -100
    std::vector<float> values;
  };
  std::vector<Array> outputs;   // without the loss
  std::vector<int64_t> labels;  // of whole rows or of tokens, padded with -100
  std::vector<float> label_values;
  int64_t rows = 0;
  std::optional<double> loss;                   // the mean over rows of their batch's loss; empty without labels
  std::vector<std::optional<double>> measures;  // of the objective, in the order of its names: the means of the batches
  Metrics memory;                               // with skip_memory_metrics false: "test_mem_cpu_alloc_delta" ...
};

class Objective;  // work/train/step/objective.h

// Receives the events of a run; override what is needed. All calls come from the thread of Trainer::train.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;
  virtual void on_train_begin(const TrainingArguments&, const TrainerState&) {}
  virtual void on_epoch_begin(const TrainingArguments&, const TrainerState&) {}
  virtual void on_step_begin(const TrainingArguments&, const TrainerState&) {}
  virtual void on_step_end(const TrainingArguments&, const TrainerState&) {}
  virtual void on_epoch_end(const TrainingArguments&, const TrainerState&) {}
  // A record of the log: the numbers of the last entry of TrainerState::log_history.
  virtual void on_log(const TrainingArguments&, const TrainerState&, const Metrics&) {}
  virtual void on_evaluate(const TrainingArguments&, const TrainerState&, const Metrics&) {}
  virtual void on_save(const TrainingArguments&, const TrainerState&) {}
  virtual void on_train_end(const TrainingArguments&, const TrainerState&) {}
  virtual bool should_stop() { return false; }  // asked after each update
  // Asked after each update: what is to be done now, beside what the arguments say. Of several processes one is enough.
  virtual bool should_log() { return false; }
  virtual bool should_evaluate() { return false; }
  virtual bool should_save() { return false; }
  // Asked after each update: true ends the run there, with a checkpoint to resume from (Trainer::interrupted). Of
  // several processes one is enough.
  virtual bool should_interrupt() { return false; }
  // Asked after each update: the run stands still until every callback answers false. should_save and should_interrupt
  // are asked meanwhile and obeyed at once. Of several processes one is enough; the others wait without a time limit.
  virtual bool should_pause() { return false; }
};

// One update, as --json prints it.
struct StepReport {
  int64_t step = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
};

// For one thread at a time; Trainers with models of their own may run beside each other on several threads.
class Trainer {
 public:
  // Who shares the model may use it between the calls, and give it to another Trainer. Of a sharded run (zero_stage,
  // fsdp, tp_size ...) the parameters are with the Trainer alone: save_model() writes them.
  Trainer(std::shared_ptr<Model> model, TrainingArguments arguments);
  ~Trainer();

  // What to train and evaluate on. `compute_metrics` adds to eval_loss what it returns ("accuracy" as eval_accuracy).
  void set_train_data(TrainingData data);
  void set_eval_data(TrainingData data);
  void set_compute_metrics(std::function<Metrics(const Predictions&)> compute_metrics);
  // Reduces the outputs of each batch to what the metrics need (classes in place of logits of a vocabulary).
  void set_preprocess_outputs(std::function<NamedTensors(const NamedTensors&)> preprocess);
  // Computes what the metrics need from the inputs of a batch instead (generated tokens); the loss is computed as
  // before.
  void set_predictor(std::function<NamedTensors(const NamedTensors& inputs)> predict);
  // Distils: updates add to the loss of the labels how far the model's logits are from the teacher's, as
  // TrainingArguments::distillation_temperature and distillation_weight say; evaluations keep the loss of the labels.
  // Both must have the same classes (in whatever order) or the same vocabulary; an error names what differs. The
  // teacher is never changed. `inputs_of` makes its inputs of a batch; empty: those of the batch that it takes.
  void set_teacher(std::shared_ptr<const Model> teacher,
                   std::function<NamedTensors(const NamedTensors& inputs)> inputs_of = {});
  // What is minimised in place of the model's own loss, as tasks of `transom train` give it. Before set_teacher.
  void set_objective(std::shared_ptr<Objective> objective);
  void add_callback(std::shared_ptr<TrainerCallback> callback);
  void set_early_stopping(int64_t patience, double threshold = 0);
  // Called with the numbers of each update, for which the host waits each time.
  void set_step_reports(std::function<void(const StepReport&)> report);
  // Called after the model is saved into a directory, to add further files (the tokenizer's).
  void set_save_hook(std::function<void(const std::string& directory)> hook);

  // Trains to the end, from a checkpoint directory if one is given ("true": the last one in output_dir). Returns
  // train_loss, train_runtime ... as Trainer logs them; nothing if the checkpoint is that of a finished run. Throws if
  // weights are not finite (a learning rate that is too high); such weights are never saved.
  Metrics train(const std::optional<std::string>& resume_from = std::nullopt);
  Metrics evaluate(const std::string& prefix = "eval");
  Predictions predict(const TrainingData& data);
  // The model, its configuration and training_args.json.
  void save_model(const std::string& directory = "");

  // The checkpoint of a run that a callback interrupted; empty otherwise.
  const std::optional<std::string>& interrupted() const;

  Model& model();
  const TrainerState& state() const;

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace transom
