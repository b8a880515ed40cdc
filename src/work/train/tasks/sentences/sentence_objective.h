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
  SentenceObjective(SentenceHead head, std::vector<Set> sets) : head_(std::move(head)), sets_(std::move(sets)) {}

  // Of inputs input_ids and attention_mask of each column, `counted` where not all tokens take part in the pooling, and
  // labels. Outputs: sentence_embedding_0, sentence_embedding_1 ... [B, D].
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  // For losses with a mini_batch_size below the rows of the batch.
  std::optional<LossInParts> in_parts(const LossPass& pass, const NamedTensors& inputs) const override;
  std::vector<std::shared_ptr<Parameter>> parameters() const override;
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;

 private:
  size_t set_of(const NamedTensors& inputs) const;
  // [rows, D] of rows begin to end - 1 of a column.
  Tensor vectors(const LossPass& pass, const NamedTensors& inputs, size_t set, size_t column, int64_t begin,
                 int64_t end, int64_t pass_number) const;
  Tensor loss_of(const LossPass& pass, const NamedTensors& inputs, size_t set, std::vector<Tensor> columns) const;

  SentenceHead head_;
  std::vector<Set> sets_;
};

}  // namespace transom
