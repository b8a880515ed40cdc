// SPDX-License-Identifier: Apache-2.0
// What is known of a model whether or not it is in memory just now.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/serve/models/adapter_names.h"

namespace transom::serve {

struct ModelFacts {
  std::string name, task, root, model_type, dtype;
  int64_t created = 0;                // seconds since 1970
  int64_t weight_bytes = 0;           // of its files of weights
  std::optional<int64_t> max_length;  // tokens of an input, or of prompt and answer together
  std::vector<std::string> labels;    // of classifiers, by id
  // Names that choose an adapter of this model.
  std::shared_ptr<AdapterNames> adapters = std::make_shared<AdapterNames>();
  std::vector<std::string> tasks;  // of its pipelines: what it answers by Hugging Face's inference form
  std::string generation_config;   // JSON of what generation_config.json sets; empty: nothing
  std::string pooling;             // of embedders: how the vectors of tokens become one
  bool writes = false;             // has a generation engine
  bool embeds = false;             // gives vectors of texts
  bool tokenizes = false;          // has a tokenizer

  bool runs(const std::string& wanted) const { return std::find(tasks.begin(), tasks.end(), wanted) != tasks.end(); }
  bool has_name(const std::string& wanted) const { return wanted == name || adapters->has(wanted); }
};

}  // namespace transom::serve
