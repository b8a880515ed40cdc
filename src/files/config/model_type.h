// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json/json.h"
#include "files/config/config.h"

namespace transom {

// How a configuration names its family; `otherwise` where it does not. For texts and for the names of other libraries:
// what a family is like stands in its record (find_family).
inline std::string model_type_of(const Config& config, const std::string& otherwise = "") {
  return config.get_string("model_type", otherwise);
}

// The same of a file that may say anything, or nothing: empty where its name is no text.
inline std::string model_type_of(const Json& file) {
  const auto type = file.find("model_type");
  return type != file.end() && type->is_string() ? type->get<std::string>() : "";
}

}  // namespace transom
