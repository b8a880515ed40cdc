// SPDX-License-Identifier: Apache-2.0
// Batches whose padding the layers of a model do not see: the places of the tokens that are left, and the number of
// each one's text (the inputs token_places and seq_idx of Model).
#pragma once

#include <string_view>

#include "transom/batch.h"
#include "transom/model.h"
#include "transom/training_arguments.h"

namespace transom {

// What becomes of the padding of batches.
enum class BatchPadding {
  kStays,
  kGoesBehindTexts,  // taken out where rows have it behind their texts alone: there no token changes its position
  kGoes,             // also where it stands in front; positions then count from the first token of a text
};

// What the arguments ask for. By default padding is taken out where the model and the device keep texts of one row
// apart, and where the numbers are those of the padded rows but for rounding and the draws of dropout, which go by the
// places of tokens among those of the batch. Throws where it is asked for and cannot
// be. `shares_rows`: processes have parts of one batch, which are to be of one length. `reads_padding`: see
// Objective.
BatchPadding padding_of_batches(const TrainingArguments& arguments, const Model& model, bool shares_rows,
                                bool reads_padding);

// The batch with rows of one of few lengths, so that few programs serve all batches: more padding costs little where
// layers do not see it. Where padding stays, and of rows without padding or with padding in front, it is the batch as
// it is. Not for batches whose outputs of each place somebody reads.
Batch with_few_lengths(Batch batch, BatchPadding padding);

// The places of the tokens that each attention mask of a batch counts, beside it; nothing where that is all of them,
// and where rows have no text. Their number is rounded up, by one in 32 at most, with places of padding, which are
// texts of their own.
void add_places(const Batch& batch, BatchPadding padding, NamedTensors& inputs);

// The same for a part of the rows [begin, end) of one mask [B, T] in host memory: sets token_places and seq_idx.
void add_places_of_rows(const Tensor& mask, int64_t begin, int64_t end, NamedTensors& inputs);

// Gives `to` the places that `from` has under the prefix of its names.
void copy_places(const NamedTensors& from, std::string_view prefix, NamedTensors& to);

}  // namespace transom
