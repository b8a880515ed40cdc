// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/transcribed_sounds.h"

#include <algorithm>

#include "base/error.h"
#include "work/train/metrics/error_rates.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {

void TranscribedSounds::add_labels(Batch& batch, const std::vector<int64_t>& rows) const {
  std::vector<const std::vector<int64_t>*> sequences;
  size_t longest = 1;
  for (const int64_t row : rows) {
    sequences.push_back(&labels[static_cast<size_t>(row)]);
    longest = std::max(longest, sequences.back()->size());
  }
  batch.sequences["labels"] = pad(sequences, static_cast<int64_t>(longest), kIgnoredLabel, false);
}

TranscribedSounds transcribed_sounds(const SoundRows& sounds, const ScriptArguments& script,
                                     const std::function<std::vector<int64_t>(int64_t file)>& labels) {
  struct Row {
    double seconds = 0;
    std::vector<int64_t> labels;
  };
  std::vector<Row> read = map_rows(static_cast<int64_t>(sounds.files.size()), [&](int64_t i) {
    return Row{read_sound(sounds.files[static_cast<size_t>(i)]).seconds(), labels(i)};
  });
  TranscribedSounds kept{sounds, {}, {}};
  kept.sounds.files.clear();
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i].seconds <= script.min_duration_in_seconds || read[i].seconds >= script.max_duration_in_seconds)
      continue;
    kept.sounds.files.push_back(sounds.files[i]);
    kept.labels.push_back(std::move(read[i].labels));
    kept.milliseconds.push_back(static_cast<int64_t>(read[i].seconds * 1000));
  }
  if (kept.labels.empty())
    fail(
        "none of {} sounds is between {} and {} seconds long: min_duration_in_seconds and max_duration_in_seconds say "
        "which are taken",
        read.size(), script.min_duration_in_seconds, script.max_duration_in_seconds);
  return kept;
}

void expect_error_rates(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (name != "wer" && name != "cer")
      fail(ErrorKind::kUsage, "--eval_metrics: expected wer or cer, found {}", quoted(name));
}

Metrics error_rates(const std::vector<std::string>& names, const std::vector<std::string>& references,
                    const std::vector<std::string>& said) {
  Metrics metrics;
  for (const std::string& name : names)
    metrics.emplace_back(name,
                         name == "wer" ? word_error_rate(references, said) : character_error_rate(references, said));
  return metrics;
}

}  // namespace transom
