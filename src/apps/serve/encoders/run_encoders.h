// SPDX-License-Identifier: Apache-2.0
// Gives inputs of a call to the queue of a model, and the results back to the call on a thread for requests.
#pragma once

#include <functional>
#include <vector>

#include "apps/serve/api/call.h"
#include "apps/serve/encoders/encode_inputs.h"
#include "apps/serve/models/served_model.h"

namespace transom::serve {

using Vectors = std::vector<std::vector<float>>;
using Classes = std::vector<ClassScore>;

// `then` gets one vector an input; what it throws becomes the answer. normalize: empty as the model says.
void compute_vectors(const std::shared_ptr<Call>& call, ServedModel& model, EncodedInputs inputs,
                     std::optional<bool> normalize, std::function<void(Vectors)> then);
// The hidden states of each token, [T, D] of each input as one vector.
void compute_states(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<Encoding> encodings,
                    std::function<void(Vectors)> then);
// The weights of the vocabulary's tokens, of a model that fills masks.
void compute_sparse(const std::shared_ptr<Call>& call, ServedModel& model, std::vector<Encoding> encodings,
                    std::function<void(Vectors)> then);
// The same for the pipeline of a task. `too_long` is of classifiers of texts, whose inputs stand in `field`; null: they
// are cut.
void compute_task(const std::shared_ptr<Call>& call, ServedModel& model, const std::string& task,
                  const std::vector<TaskInput>& inputs, Json parameters,
                  std::function<void(std::vector<TaskResult>)> then, const TooLong* too_long = nullptr,
                  const char* field = "inputs");

}  // namespace transom::serve
