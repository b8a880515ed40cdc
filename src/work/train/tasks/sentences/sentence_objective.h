// SPDX-License-Identifier: Apache-2.0
// What a run on sentences minimises: a model's states become vectors, and a loss of the set that a batch is from
// compares them.
#pragma once

#include <memory>
#include <optional>
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
    std::optional<SpladeOptions> splade = {};  // of a SpladeLoss
  };
  // `updates`: those of a run in the course of which SpladeLoss grows; 0: nothing is trained, and all of it counts.
  SentenceObjective(SentenceHead head, std::vector<Set> sets, int64_t updates = 0);

  // Of inputs input_ids and attention_mask of each column, `counted` where not all tokens take part in the pooling, and
  // labels. Outputs: sentence_embedding_0, sentence_embedding_1 ... [B, D].
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  // For losses with a mini_batch_size below the rows of the batch.
  std::optional<LossInParts> in_parts(const LossPass& pass, const NamedTensors& inputs) const override;
  std::vector<std::shared_ptr<Parameter>> parameters() const override;
  const BatchMeasures* measures() const override { return measures_ ? &*measures_ : nullptr; }
  void complete_batches(Model& model, std::vector<NamedTensors>& micro_batches, int64_t first) override;
  void complete_evaluation(Model& model, NamedTensors& inputs, int64_t number) override;
  std::vector<std::pair<std::string, double>> take_numbers(bool training) override;
  void updated(const Model&, int64_t steps) override { done_ = steps; }
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;

 private:
  size_t set_of(const NamedTensors& inputs) const;
  // [rows, D] of rows begin to end - 1 of a column.
  Tensor vectors(const LossPass& pass, const NamedTensors& inputs, size_t set, size_t column, int64_t begin,
                 int64_t end, int64_t pass_number) const;
  Tensor loss_of(const LossPass& pass, const NamedTensors& inputs, size_t set, std::vector<Tensor> columns,
                 NamedTensors* outputs) const;
  double share_of(const SpladeOptions& splade) const;
  void add_share(NamedTensors& inputs) const;

  SentenceHead head_;
  std::vector<Set> sets_;
  std::optional<BatchMeasures> measures_;  // of the terms of a SpladeLoss that is the one set's
  int64_t updates_;
  int64_t done_ = 0;     // updates so far
  int64_t current_ = 0;  // the last update that began: its share counts
};

}  // namespace transom
