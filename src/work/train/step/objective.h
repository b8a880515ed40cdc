// SPDX-License-Identifier: Apache-2.0
// What a run minimises: from a model and the inputs of a micro-batch to the loss. TrainStep asks it in every kind of
// update (plain, sharded, pipelined, offloaded) and in evaluations.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transom/model.h"
#include "work/train/log/batch_measures.h"

namespace transom {

class Distillation;

// What a micro-batch is computed under.
struct LossPass {
  const Model& model;
  // Of a model's pass: give it to Model::forward as it is, or as further_pass() makes it where there are several.
  ForwardContext& context;
  // The processes whose rows are one batch, and this one among them. Sums over them are all_reduce; where a run is
  // sharded a batch is that of all processes, and there is one.
  int64_t rank = 0, ranks = 1;
};

// The context of a second, third ... pass through a model in one micro-batch, with draws of its own.
ForwardContext further_pass(const LossPass& pass, int64_t number);

// A loss whose gradient is computed piece by piece, so that one piece alone holds its activations (GradCache: Gao et
// al., 2021). The gradient is the sum of those of the parts, which are traced and computed one after the other.
struct LossInParts {
  Tensor loss;                                 // what is reported, f32 []
  std::vector<std::function<Tensor()>> parts;  // f32 [] each
  NamedTensors outputs;                        // as loss() gives them
};

// Used by one thread. What it computes depends on the arguments alone, and on the weights.
class Objective {
 public:
  virtual ~Objective() = default;

  // The loss of a micro-batch, f32 []. Its means divide by what mean_of and mean_of_all (models/nn/losses) say, so that
  // an update has the gradient of its whole batch, however it is cut. `outputs`, where it is not null, receives what
  // measures() and metrics of evaluations read. It is traced only to find the counts, too.
  virtual Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const = 0;
  // The same in parts; nothing: in one. Not asked where a run is sharded.
  virtual std::optional<LossInParts> in_parts(const LossPass&, const NamedTensors&) const { return std::nullopt; }

  // What the log shows beside the loss, in training and of evaluations; null: nothing. Pipelined updates measure
  // nothing: no process has both inputs and outputs.
  virtual const BatchMeasures* measures() const { return nullptr; }

  // What Transformers' Trainer counts of a micro-batch and gives a model to divide by, f32 []; empty: nothing.
  virtual Tensor count_items(const Model&, const NamedTensors&) const { return {}; }
  // Whether the loss of an evaluated batch divides by the counts of all processes; else each divides by its own, and
  // the mean of batches weighs them by their rows.
  virtual bool evaluates_over_processes() const { return false; }
  // Completes the inputs of an update's micro-batches before it begins, from the weights as they are then (texts that
  // the model writes). `first`: so many micro-batches of the run came before.
  virtual void complete_batches(Model&, std::vector<NamedTensors>& /*micro_batches*/, int64_t /*first*/) {}
  // Whether completing so many micro-batches from `first` on, or a batch of an evaluation (count 0), computes with the
  // model: where its weights are spread over processes, these then gather them for that time.
  virtual bool asks_whole_weights(int64_t /*first*/, int64_t /*count*/) const { return false; }
  // The same of a batch of an evaluation, this process's `number`th of it.
  virtual void complete_evaluation(Model&, NamedTensors& /*inputs*/, int64_t /*number*/) {}
  // What the host measured since it was last asked, in training or in evaluations; the log shows it beside measures().
  virtual std::vector<std::pair<std::string, double>> take_numbers(bool /*training*/) { return {}; }

  // Whether a batch has a loss; batches without are only passed through the model.
  virtual bool has_loss(const NamedTensors&) const { return true; }
  // Whether passes are computed under Computing::batch_invariant: log probabilities are then those of the engine that
  // sampled the tokens, to the bit.
  virtual bool keeps_rows_apart() const { return false; }
  // Whether a row's loss is that of the row alone, so that a batch may be filled up with rows that do not count.
  virtual bool rows_stand_alone() const { return false; }
  // Whether its loss or its numbers are of all places of a row, padding among them.
  virtual bool reads_padding() const { return false; }

  // Makes updates learn from a teacher besides. Refused by losses that have none.
  virtual void learn_from(Distillation distillation);

  // Whether weight decay spares a parameter; as Trainer decides it.
  virtual bool spares_from_decay(const Parameter& parameter) const;

  // Trained beside those of the model. Not of sharded runs. They are written into checkpoints and read again by
  // save() and load().
  virtual std::vector<std::shared_ptr<Parameter>> parameters() const { return {}; }
  // After each update; `steps` counts it.
  virtual void updated(const Model&, int64_t /*steps*/) {}
  // What a resumed run needs beside the model, in the directory of a checkpoint.
  virtual void save(const std::filesystem::path&) const {}
  virtual void load(const std::filesystem::path&) {}
  // Refuses what it cannot be computed in, before the first step; `sharded`: parameters are spread over processes,
  // `staged`: over the stages of a pipeline.
  virtual void expect(bool /*sharded*/, bool /*staged*/) const {}
};

}  // namespace transom
