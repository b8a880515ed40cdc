// SPDX-License-Identifier: Apache-2.0
// What the tasks that give scores to classes share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/config/config.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// What turns logits into scores where the call does not say: by problem_type and the number of classes.
std::string default_function(const Config& config, size_t classes);
// softmax, sigmoid or none.
std::vector<double> scores_of(const std::vector<float>& logits, const std::string& function);

// All classes by falling score; one without a label is LABEL_i.
std::vector<ClassScore> classes_of(const std::vector<float>& logits, const std::string& function,
                                   const std::vector<std::string>& labels);
TaskParameter function_to_apply_parameter();
// `top_k` of `classes`, all of them where it is null; `otherwise` where the call does not say.
size_t classes_wanted(const TaskOptions& options, size_t classes, std::optional<int64_t> otherwise);

// The places of the scores, falling; equal ones keep their order.
std::vector<size_t> falling_order(const std::vector<double>& scores);
// The template with the label in place of {}.
std::string hypothesis_of(const std::string& hypothesis_template, const std::string& label);

}  // namespace transom
