// SPDX-License-Identifier: Apache-2.0
// A model over a whole data set.
#pragma once

#include <functional>
#include <optional>

#include "transom/trainer.h"
#include "work/train/step/text_places.h"
#include "work/train/step/train_step.h"

namespace transom {

// Makes of a batch's outputs, or of its inputs, what the predictions hold.
using OutputFilter = std::function<NamedTensors(const NamedTensors&)>;

struct EvaluationBatches {
  int64_t size = 8;
  bool drop_last = false;      // the rows that fill no batch, as dataloader_drop_last has it
  bool skips_unfinite = true;  // losses that are no number, where others are, as logging_nan_inf_filter
  BatchPadding padding = BatchPadding::kStays;
  std::optional<int64_t> grouping_seed;  // of group_by_length, which evaluates rows of like length together as well
};

// Where several processes train, each evaluates its share of the rows, and all get the predictions of all, in the order
// of the data.
// `keep` is given the outputs; where it is empty, all of them are kept. Where `predict` is set, what it makes of the
// inputs is kept in their place; the loss is then the mean of all batches, as Seq2SeqTrainer has it, which does not
// weigh a last one of fewer rows less.
Predictions evaluate_model(TrainStep& step, const TrainingData& data, const EvaluationBatches& how,
                           const OutputFilter& keep = {}, const OutputFilter& predict = {});

}  // namespace transom
