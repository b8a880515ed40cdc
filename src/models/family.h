// SPDX-License-Identifier: Apache-2.0
// What the records of families (models/families) are written with.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/config/config.h"
#include "files/family/family.h"
#include "models/shared/record_parts.h"
#include "transom/model.h"
#include "transom/scope.h"

namespace transom {

// At the end of a family's file: const RegisterFamilies kQwenFamilies{qwen2_family, qwen3_family};
struct RegisterFamilies {
  RegisterFamilies(std::initializer_list<Family (*)()> records);
};

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
