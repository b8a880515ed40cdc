// SPDX-License-Identifier: Apache-2.0
// Fields of JSON objects from outside, checked. Only for .cpp files: the JSON header is heavy.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"

namespace transom::text {

// The value of `key`, or a null where it is missing.
inline const Json& field(const Json& json, std::string_view key, const std::string& where) {
  static const Json null;
  require(json.is_object(), "{}: expected an object, found {}", where, json.type_name());
  const auto found = json.find(key);
  return found == json.end() ? null : *found;
}

inline std::string string_field(const Json& json, std::string_view key, const std::string& where) {
  const Json& value = field(json, key, where);
  require(value.is_string(), "{}.{}: expected a string, found {}", where, key, value.type_name());
  return value.get<std::string>();
}

inline std::string string_field(const Json& json, std::string_view key, const std::string& where,
                                std::string otherwise) {
  return field(json, key, where).is_null() ? otherwise : string_field(json, key, where);
}

inline bool bool_field(const Json& json, std::string_view key, const std::string& where, bool otherwise) {
  const Json& value = field(json, key, where);
  if (value.is_null()) return otherwise;
  require(value.is_boolean(), "{}.{}: expected true or false, found {}", where, key, value.type_name());
  return value.get<bool>();
}

inline int64_t integer_field(const Json& json, std::string_view key, const std::string& where) {
  const Json& value = field(json, key, where);
  require(value.is_number_integer() && value.get<double>() < 9e18, "{}.{}: expected an integer, found {}", where, key,
          quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace)));
  return value.get<int64_t>();
}

inline int64_t integer_field(const Json& json, std::string_view key, const std::string& where, int64_t otherwise) {
  return field(json, key, where).is_null() ? otherwise : integer_field(json, key, where);
}

inline const Json& array_field(const Json& json, std::string_view key, const std::string& where) {
  const Json& value = field(json, key, where);
  require(value.is_array(), "{}.{}: expected an array, found {}", where, key, value.type_name());
  return value;
}

// Sequences of components may contain sequences.
constexpr int kMaximumComponentDepth = 16;

inline std::string component_type(const Json& json, const std::string& where, int depth) {
  require(depth < kMaximumComponentDepth, "{}: sequences are nested deeper than {} levels", where,
          kMaximumComponentDepth);
  return string_field(json, "type", where);
}

// A string with one character, as the ▁ of Metaspace.
inline std::string nonempty_field(const Json& json, std::string_view key, const std::string& where) {
  std::string value = string_field(json, key, where);
  require(!value.empty(), "{}.{}: expected characters, found an empty string", where, key);
  return value;
}

}  // namespace transom::text
