// SPDX-License-Identifier: Apache-2.0
// Sounds and what is said in them, as rows of a model of either kind that recognises speech.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "transom/trainer.h"
#include "transom/training_arguments.h"
#include "work/train/tasks/media/audio_rows.h"

namespace transom {

struct TranscribedSounds {
  SoundRows sounds;
  std::vector<std::vector<int64_t>> labels;
  std::vector<int64_t> milliseconds;

  // The labels of these rows, padded to the longest.
  void add_labels(Batch& batch, const std::vector<int64_t>& rows) const;
};

// Of the files those whose length min_duration_in_seconds and max_duration_in_seconds want. `labels` is called for each
// file, by several threads at once. Errors: none is left.
TranscribedSounds transcribed_sounds(const SoundRows& sounds, const ScriptArguments& script,
                                     const std::function<std::vector<int64_t>(int64_t file)>& labels);

// Refuses an --eval_metrics that is not one of wer and cer.
void expect_error_rates(const std::vector<std::string>& names);
// Those of the names.
Metrics error_rates(const std::vector<std::string>& names, const std::vector<std::string>& references,
                    const std::vector<std::string>& said);

}  // namespace transom
