// SPDX-License-Identifier: Apache-2.0
// What a run on sentences minimises: a model's states become vectors, and a loss of the set that a batch is from
// compares them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/sentences/sentence_head.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/sentences/losses/sentence_loss.h"

namespace transom {

// The names of a batch's tensors: "0/sentence_1/input_ids", of the column 1 of set 0.
std::string sentence_input(size_t set, size_t column, std::string_view name);

class SentenceObjective : public Objective {
 public:
  struct Set {
    size_t columns = 2;
    std::shared_ptr<const SentenceLoss> loss;
  };
  // `growth`: of a SpladeLoss, which is that of the one set, in a run of `steps` updates.
  struct Growth {
    SpladeOptions splade;
    int64_t steps = 0;
  };
  SentenceObjective(SentenceHead head, std::vector<Set> sets, std::optional<Growth> growth = {});

  // Of inputs input_ids and attention_mask of each column, `counted` where not all tokens take part in the pooling, and
  // labels. Outputs: sentence_embedding_0, sentence_embedding_1 ... [B, D].
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  // For losses with a mini_batch_size below the rows of the batch.
  std::optional<LossInParts> in_parts(const LossPass& pass, const NamedTensors& inputs) const override;
  std::vector<std::shared_ptr<Parameter>> parameters() const override;
  const BatchMeasures* measures() const override { return growth_ ? &measures_ : nullptr; }
  void complete_batches(Model& model, std::vector<NamedTensors>& micro_batches, int64_t first) override;
  void complete_evaluation(Model& model, NamedTensors& inputs, int64_t number) override;
  std::vector<std::pair<std::string, double>> take_numbers(bool training) override;
  void updated(const Model&, int64_t steps) override { steps_ = steps; }
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;

 private:
  size_t set_of(const NamedTensors& inputs) const;
  // [rows, D] of rows begin to end - 1 of a column.
  Tensor vectors(const LossPass& pass, const NamedTensors& inputs, size_t set, size_t column, int64_t begin,
                 int64_t end, int64_t pass_number) const;
  Tensor loss_of(const LossPass& pass, const NamedTensors& inputs, size_t set, std::vector<Tensor> columns,
                 NamedTensors* outputs) const;
  void add_share(NamedTensors& inputs) const;

  SentenceHead head_;
  std::vector<Set> sets_;
  std::optional<Growth> growth_;
  BatchMeasures measures_;
  int64_t steps_ = 0;  // updates so far
  double share_ = 0;   // of the weights of regularizers, in this update
};

}  // namespace transom
