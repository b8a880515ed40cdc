// SPDX-License-Identifier: Apache-2.0
// Bodies as JSON, read as strictly as hostile text must be, and their fields with types and ranges.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/api/api_error.h"
#include "base/json/json.h"

namespace transom::serve {

struct JsonLimits {
  int depth = 64;
  size_t keys = 4096;  // of one object
  // Of all keys with those before them in their objects, which are looked through for each.
  size_t comparisons = 16'000'000;
};

// Refuses with 400: what is no JSON or no UTF-8, lone surrogates, NaN and numbers beyond a double, a key twice, and
// what is beyond the limits.
Json parse_request_json(std::string_view text, const JsonLimits& limits = {});
// The same of a field whose value is the text of a JSON value; refusals name the field.
Json parse_json_field(std::string_view text, const std::string& field);
// JSON on one line, as clients of OpenAI get it: no spaces, text that is no UTF-8 replaced.
std::string compact(const Json& json);

// The fields of an object. null counts as absent. Each reader refuses with 400 what has another type or is out of its
// range, by the name of the field; a field that nobody asked for is unknown (known_fields.h).
class RequestFields {
 public:
  // `path` names the object in errors: "response_format".
  explicit RequestFields(const Json& object, std::string path = "");

  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most);
  std::optional<double> number(const char* name, double least, double most);
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> text(const char* name, size_t most_bytes = SIZE_MAX);
  // A string, or a list of them.
  std::optional<std::vector<std::string>> texts(const char* name, size_t most = SIZE_MAX, size_t most_bytes = SIZE_MAX);
  // One of the words.
  std::optional<std::string> choice(const char* name, const std::vector<std::string>& words);
  const Json* any(const char* name);  // null where it is absent
  const Json* object(const char* name);
  const Json* list(const char* name, size_t most = SIZE_MAX);
  // Those that nobody has asked for, and what one of them holds.
  std::vector<std::string> unknown() const;
  const Json& value_of(const std::string& name) const { return object_.at(name); }
  std::string name_of(const char* name) const { return path_.empty() ? name : path_ + "." + name; }

 private:
  const Json* find(const char* name);
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace transom::serve
