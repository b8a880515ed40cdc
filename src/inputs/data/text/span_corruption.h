// SPDX-License-Identifier: Apache-2.0
// T5's pre-training (Raffel et al., 2019): spans of the text are cut out, each leaving a sentinel, and are what the
// decoder is to write. The numbers and draws are those of run_t5_mlm_flax.
#pragma once

#include "base/numbers/mt19937.h"
#include "inputs/data/text/padding.h"

namespace transom {

struct SpanCorruption {
  double noise_density = 0.15;
  double mean_span_length = 3;
  int64_t first_sentinel = 0;  // the id of <extra_id_0>; the next ones are below it
  int64_t eos_token_id = 1;
};

// Lengths of a block of text and of its labels, so that what is left of the block has `inputs_length` tokens with its
// sentinels and the end.
struct SpanLengths {
  int64_t tokens = 0, labels = 0;
};
SpanLengths span_lengths(int64_t inputs_length, const SpanCorruption& options);

// Which of `length` tokens are cut out. Draws as numpy's shuffle does.
std::vector<bool> noise_spans(int64_t length, const SpanCorruption& options, Mt19937& generator);

// Takes the spans out of `input_ids`, all rows of which are of one length, and gives the labels.
PaddedRows corrupt_spans(PaddedRows& input_ids, const SpanCorruption& options, Mt19937& generator);

}  // namespace transom
