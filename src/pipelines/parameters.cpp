// SPDX-License-Identifier: Apache-2.0
#include "pipelines/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/numbers.h"
#include "generation/generation_fields.h"

namespace transom {
namespace {

using Kind = TaskParameter::Type;

bool is_choice(const TaskParameter& parameter, const std::string& word) {
  return std::find(parameter.choices.begin(), parameter.choices.end(), word) != parameter.choices.end();
}

bool fits(const TaskParameter& parameter, const Json& value) {
  const auto is_text = [](const Json& item) { return item.is_string(); };
  const auto is_number = [](const Json& item) { return item.is_number(); };
  switch (parameter.type) {
    case Kind::kFlag:
      return value.is_boolean();
    case Kind::kFlagOrWord:
      return value.is_boolean() || (value.is_string() && is_choice(parameter, value.get<std::string>()));
    case Kind::kInteger:
      return value.is_number_integer();
    case Kind::kNumber:
      return value.is_number();
    case Kind::kNumbers:
      return value.is_number() || (value.is_array() && std::all_of(value.begin(), value.end(), is_number));
    case Kind::kText:
      return value.is_string() && (parameter.choices.empty() || is_choice(parameter, value.get<std::string>()));
    case Kind::kTexts:
      return value.is_string() || (value.is_array() && std::all_of(value.begin(), value.end(), is_text));
    case Kind::kJson:
      return value.is_structured();
    case Kind::kGeneration:
      return true;
  }
  return true;
}

std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find(',', begin), word.size());
    const size_t first = word.find_first_not_of(' ', begin);
    if (first < end) parts.push_back(word.substr(first, word.find_last_not_of(' ', end - 1) - first + 1));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::string expected_of(const TaskParameter& parameter) {
  switch (parameter.type) {
    case Kind::kFlag:
      return "true or false";
    case Kind::kFlagOrWord:
      return fmt::format("true, false or {}", fmt::join(parameter.choices, ", "));
    case Kind::kInteger:
      return "a whole number";
    case Kind::kNumber:
      return "a number";
    case Kind::kNumbers:
      return "a number or a list of numbers";
    case Kind::kText:
      return parameter.choices.empty() ? "a text" : fmt::format("one of {}", fmt::join(parameter.choices, ", "));
    case Kind::kTexts:
      return "a list of texts";
    case Kind::kJson:
      return "JSON, an object or a list";
    case Kind::kGeneration:
      return "an option of generate()";
  }
  return "";
}

Json parameter_of_word(const TaskParameter& parameter, const std::string& word) {
  const bool flag = word == "true" || word == "True" || word == "false" || word == "False";
  Json value = word;
  if (parameter.type == Kind::kGeneration) return generation_value(parameter.name, word);
  if (is_choice(parameter, word)) return value;
  if (word == "None" || word == "none" || word == "null") return nullptr;
  if (flag && (parameter.type == Kind::kFlag || parameter.type == Kind::kFlagOrWord))
    value = word == "true" || word == "True";
  else if (parameter.type == Kind::kTexts) {
    value = word.starts_with('[') ? Json::parse(word, nullptr, false) : Json(parts_of(word));
  } else if (parameter.type == Kind::kNumbers) {
    value = Json::parse(word.starts_with('[') || word.find(',') == word.npos ? word : "[" + word + "]", nullptr, false);
  } else if (parameter.type == Kind::kInteger || parameter.type == Kind::kNumber || parameter.type == Kind::kJson) {
    value = Json::parse(word, nullptr, false);
  }
  if (value.is_discarded() || !fits(parameter, value))
    fail(ErrorKind::kUsage, "--{}: expected {}, found {}", parameter.name, expected_of(parameter), quoted(word));
  return value;
}

void check_parameter(const TaskParameter& parameter, const Json& value) {
  if (!value.is_null() && !fits(parameter, value))
    fail("parameter {}: expected {}, found {}", parameter.name, expected_of(parameter), quoted(dump_json(value)));
}

std::vector<std::string> names_of(const TaskParameters& parameters) {
  std::vector<std::string> names;
  for (const TaskParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

}  // namespace transom
