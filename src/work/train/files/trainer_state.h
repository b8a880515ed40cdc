// SPDX-License-Identifier: Apache-2.0
// The files of metrics that a run writes beside its state.
#pragma once

#include "transom/trainer_state.h"

namespace transom {

// The name under which evaluation reports the metric for the best model ("eval_loss").
std::string best_metric_name(const TrainingArguments& arguments);

// Trainer.save_metrics: `<split>_results.json`, and the same added to all_results.json.
void save_metrics(const std::filesystem::path& folder, std::string_view split, const LogRecord& metrics,
                  bool combined = true);

// speed_metrics: runtime, samples and steps a second, rounded as Trainer rounds them.
LogRecord speed_metrics(std::string_view split, double seconds, std::optional<int64_t> samples,
                        std::optional<int64_t> steps);

}  // namespace transom
