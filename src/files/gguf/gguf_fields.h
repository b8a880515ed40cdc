// SPDX-License-Identifier: Apache-2.0
// Fields of config.json, which have other names in older families.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {

// The first of `names` that is there; without `otherwise` an error where none is.
inline int64_t count_of(const Json& config, std::initializer_list<const char*> names,
                        std::optional<int64_t> otherwise = {}) {
  for (const char* name : names)
    if (config.contains(name) && config[name].is_number_integer()) return config[name].get<int64_t>();
  if (!otherwise) fail("config.json: {} is missing", *names.begin());
  return *otherwise;
}

inline double number_of(const Json& config, std::initializer_list<const char*> names, double otherwise) {
  for (const char* name : names)
    if (config.contains(name) && config[name].is_number()) return config[name].get<double>();
  return otherwise;
}

inline std::string text_of(const Json& object, std::initializer_list<const char*> names, const std::string& otherwise) {
  for (const char* name : names)
    if (object.is_object() && object.contains(name) && object[name].is_string()) return object[name].get<std::string>();
  return otherwise;
}

inline bool truth_of(const Json& config, const char* name, bool otherwise) {
  return config.contains(name) && config[name].is_boolean() ? config[name].get<bool>() : otherwise;
}

}  // namespace transom
