// SPDX-License-Identifier: Apache-2.0
// What an architecture family tells of itself. Each file of this folder defines one (or a few that share their code)
// and stands in the list of registry.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/config.h"
#include "transom/model.h"
#include "transom/scope.h"

namespace transom {

struct Architecture {
  std::string name;                // "BertForSequenceClassification"
  std::vector<std::string> tasks;  // of pipelines that take this head
  std::unique_ptr<Model> (*make)(const Config& config, const Scope& scope);
};

struct Family {
  std::string model_type;   // of config.json: "bert"
  std::string base_prefix;  // of the parameters of the body inside a model with a head: "bert"
  std::vector<Architecture> architectures;
  bool ties_scale_head = false;  // tie_word_embeddings also says whether the head's inputs are scaled
};

const std::vector<Family>& families();

template <typename M>
std::unique_ptr<Model> make_model(const Config& config, const Scope& scope) {
  return std::make_unique<M>(config, scope);
}

// ---- used by several families

// The number of classes: of id2label, else num_labels, else 2.
int64_t number_of_labels(const Config& config);
// pad_token_id, whose vector is not trained; none where the configuration says null, `otherwise` where it is silent.
std::optional<int64_t> padding_id(const Config& config, int64_t otherwise);
// The configuration with the fields that it lacks taken from a JSON object.
Config with_defaults(Config config, std::string_view defaults);
// Refuses a field that changes the mathematics and has a value that is not carried out here.
void refuse_unless(const Config& config, const std::string& field, const std::string& expected);

}  // namespace transom
