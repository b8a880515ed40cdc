// SPDX-License-Identifier: Apache-2.0
// How well texts go with a query: by a cross-encoder (a classifier of pairs), or by the cosine of two vectors.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "serve/encoders/run_encoders.h"

namespace transom::serve {

bool can_score(const ModelFacts& model);
// `then` gets one score a pair. Of a cross-encoder with one class the sigmoid of its logit, or with `raw` the logit
// itself; with more classes the probability of the last one. Of an embedding model the cosine. `field` is where the
// texts stand.
void compute_scores(const std::shared_ptr<Call>& call, ServedModel& model,
                    const std::vector<std::pair<std::string, std::string>>& pairs, bool raw,
                    const VectorSettings& settings, const char* field, std::function<void(std::vector<double>)> then);
double cosine(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace transom::serve
