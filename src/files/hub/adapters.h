// SPDX-License-Identifier: Apache-2.0
// Directories of PEFT: adapters, and the name of the model that they belong to.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"

namespace transom {

constexpr const char* kAdapterConfig = "adapter_config.json";
// The names of the classes, a list, which PEFT's files have no place for. Not a config.json: Transformers 5 takes a
// directory that has one for a whole model.
constexpr const char* kAdapterClasses = "classes.json";

// The directory of the model that the adapters of `directory` belong to, by base_model_name_or_path: an id of the Hub,
// or a path, from the working directory or else from `directory`. `directory` itself where it holds no adapters.
fs::path base_of_adapters(const fs::path& directory);

// The names of kAdapterClasses; none where there is no such file.
std::vector<std::string> classes_of_adapters(const fs::path& directory);
// The names of a model's classes, in the order of their ids: those, or id2label of the model or the adapters' base.
std::vector<std::string> known_classes(const fs::path& directory);

}  // namespace transom
