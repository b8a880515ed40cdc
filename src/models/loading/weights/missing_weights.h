// SPDX-License-Identifier: Apache-2.0
// What a checkpoint lacks, and whether that may be: one rule for all commands. What answers, scores or writes a model
// needs all weights that its answers depend on; what trains one needs its body, and makes heads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

// One line about tensors that the checkpoint lacks, with a name in it that is near, perhaps misspelt.
void warn_of_missing(const LoadReport& report, const std::string& where);

// Of tensors that nothing reads, those of heads that predict further tokens (DeepSeek-AI, 2024: multi-token
// prediction): of modules "mtp", or of layers behind the model's last. The model answers without them; they would be
// drafts.
std::vector<std::string> further_token_heads(const std::vector<std::string>& unexpected, int64_t layers);

// Refuses a model whose answers depend on weights that were missing and are new: they would be random, as would the
// answers. What else is missing (a pooler beside vectors of texts) is said.
void expect_trained(const Model& model, const LoadReport& report, const std::string& where, const std::string& task);
// The same for a model to train: its body must be there, weights of a head may be new, which is said.
void expect_trained_body(const Model& model, const LoadReport& report, const std::string& where);

// The model of a checkpoint to compute answers with or to write in another form.
std::unique_ptr<Model> load_trained(const std::string& name_or_path, const LoadOptions& options = {});

}  // namespace transom
