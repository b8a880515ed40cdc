// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/numbers.h"
#include "work/generation/generation_fields.h"

namespace transom {
namespace {

using Kind = TaskParameter::Type;
using Value = TaskOptions::Value;

bool is_choice(const TaskParameter& parameter, const std::string& word) {
  return std::find(parameter.choices.begin(), parameter.choices.end(), word) != parameter.choices.end();
}

template <typename T>
bool is(const Value& value) {
  return std::holds_alternative<T>(value);
}

bool is_number(const Value& value) { return is<int64_t>(value) || is<double>(value); }

bool fits(const TaskParameter& parameter, const Value& value) {
  const std::string* word = std::get_if<std::string>(&value);
  const TaskOptions::JsonText* json = std::get_if<TaskOptions::JsonText>(&value);
  switch (parameter.type) {
    case Kind::kFlag:
      return is<bool>(value);
    case Kind::kFlagOrWord:
      return is<bool>(value) || (word && is_choice(parameter, *word));
    case Kind::kInteger:
      return is<int64_t>(value);
    case Kind::kNumber:
      return is_number(value);
    case Kind::kNumbers:
      return is_number(value) || is<std::vector<double>>(value);
    case Kind::kText:
      return word && (parameter.choices.empty() || is_choice(parameter, *word));
    case Kind::kTexts:
      return word || is<std::vector<std::string>>(value);
    case Kind::kJson:
      return is<std::vector<std::string>>(value) || is<std::vector<double>>(value) ||
             (json && (json->text.starts_with('[') || json->text.starts_with('{')));
    case Kind::kGeneration:
      return true;
  }
  return true;
}

}  // namespace

std::vector<std::string> words_between_commas(const std::string& word) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= word.size();) {
    const size_t end = std::min(word.find(',', begin), word.size());
    const size_t first = word.find_first_not_of(' ', begin);
    if (first < end) parts.push_back(word.substr(first, word.find_last_not_of(' ', end - 1) - first + 1));
    begin = end + 1;
  }
  return parts;
}

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

Value parameter_of_word(const TaskParameter& parameter, const std::string& word) {
  const bool flag = word == "true" || word == "True" || word == "false" || word == "False";
  if (parameter.type == Kind::kGeneration) return value_of_json(parameter, generation_value(parameter.name, word));
  if (is_choice(parameter, word)) return word;
  if (word == "None" || word == "none" || word == "null") return std::monostate();
  Json value = word;
  if (flag && (parameter.type == Kind::kFlag || parameter.type == Kind::kFlagOrWord))
    value = word == "true" || word == "True";
  else if (parameter.type == Kind::kTexts) {
    value = word.starts_with('[') ? Json::parse(word, nullptr, false) : Json(words_between_commas(word));
  } else if (parameter.type == Kind::kNumbers) {
    value = Json::parse(word.starts_with('[') || word.find(',') == word.npos ? word : "[" + word + "]", nullptr, false);
  } else if (parameter.type == Kind::kInteger || parameter.type == Kind::kNumber || parameter.type == Kind::kJson) {
    value = Json::parse(word, nullptr, false);
  }
  const Value result = value.is_discarded() ? Value() : value_of_json(parameter, value);
  if (value.is_discarded() || !fits(parameter, result))
    fail(ErrorKind::kUsage, "--{}: expected {}, found {}", parameter.name, expected_of(parameter), quoted(word));
  return result;
}

void check_parameter(const TaskParameter& parameter, const Value& value) {
  if (!is<std::monostate>(value) && !fits(parameter, value))
    fail("parameter {}: expected {}, found {}", parameter.name, expected_of(parameter), quoted(shown_value(value)));
}

const TaskParameter* find_parameter(const TaskParameters& parameters, std::string_view name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
  return found == parameters.end() ? nullptr : &*found;
}

void check_options(const TaskParameters& parameters, const TaskOptions& options) {
  for (const auto& [name, value] : options.all()) {
    if (name == "batch_size") continue;
    const TaskParameter* known = find_parameter(parameters, name);
    if (!known)
      fail("unknown parameter {}{} This task takes: {}", quoted(name), did_you_mean(name, names_of(parameters)),
           fmt::join(names_of(parameters), ", "));
    check_parameter(*known, value);
  }
  batch_size_of(options);
}

std::vector<std::string> names_of(const TaskParameters& parameters) {
  std::vector<std::string> names;
  for (const TaskParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

Value value_of_json(const TaskParameter& parameter, const Json& json) {
  const auto all = [&](auto is_one) { return json.is_array() && std::all_of(json.begin(), json.end(), is_one); };
  if (json.is_null()) return std::monostate();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX))
    return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (parameter.type == Kind::kTexts && all([](const Json& item) { return item.is_string(); }))
    return json.get<std::vector<std::string>>();
  if (parameter.type == Kind::kNumbers && all([](const Json& item) { return item.is_number(); }))
    return json.get<std::vector<double>>();
  return TaskOptions::JsonText{dump_json(json)};
}

Json json_of_value(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) return nullptr;
        else if constexpr (std::is_same_v<T, TaskOptions::JsonText>) return parse_json(held.text, "an option");
        else return held;
      },
      value);
}

std::string shown_value(const Value& value) { return dump_json(json_of_value(value)); }

// ---- what a task reads

namespace {

template <typename T>
const T* held(const TaskOptions& options, std::string_view name, const char* expected) {
  const Value* value = options.find(name);
  if (!value) return nullptr;
  const T* found = std::get_if<T>(value);
  if (!found) fail("parameter {}: expected {}, found {}", name, expected, quoted(shown_value(*value)));
  return found;
}

}  // namespace

bool is_given(const TaskOptions& options, std::string_view name) {
  const Value* value = options.find(name);
  return value && !is<std::monostate>(*value);
}

int64_t batch_size_of(const TaskOptions& options) {
  if (!is_given(options, "batch_size")) return 1;
  const int64_t size = int_option(options, "batch_size", 1);
  if (size < 1) fail("batch_size: expected a number above 0, found {}", size);
  return std::min(size, int64_t{1} << 30);  // all that there are
}

int64_t int_option(const TaskOptions& options, std::string_view name, int64_t otherwise) {
  const int64_t* found = held<int64_t>(options, name, "a whole number");
  return found ? *found : otherwise;
}

std::optional<double> number_option(const TaskOptions& options, std::string_view name) {
  if (!is_given(options, name)) return std::nullopt;
  if (const int64_t* whole = std::get_if<int64_t>(options.find(name))) return static_cast<double>(*whole);
  return *held<double>(options, name, "a number");
}

std::string text_option(const TaskOptions& options, std::string_view name, const std::string& otherwise) {
  if (!is_given(options, name)) return otherwise;
  return *held<std::string>(options, name, "a string");
}

bool flag_option(const TaskOptions& options, std::string_view name, bool otherwise) {
  const bool* found = held<bool>(options, name, "true or false");
  return found ? *found : otherwise;
}

bool flag_or_default(const TaskOptions& options, std::string_view name, bool otherwise) {
  return is_given(options, name) ? flag_option(options, name, otherwise) : otherwise;
}

std::optional<std::vector<std::string>> texts_option(const TaskOptions& options, std::string_view name) {
  if (!is_given(options, name)) return std::nullopt;
  if (const std::string* one = std::get_if<std::string>(options.find(name))) return std::vector{*one};
  return *held<std::vector<std::string>>(options, name, "a list of texts");
}

Json json_option(const TaskOptions& options, std::string_view name) {
  const Value* value = options.find(name);
  return value ? json_of_value(*value) : Json();
}

void refuse_without_effect(const TaskOptions& options, const std::vector<std::string>& names, const std::string& why) {
  for (const std::string& name : names) {
    const Value* value = options.find(name);
    const bool* flag = value ? std::get_if<bool>(value) : nullptr;
    if (value && !is<std::monostate>(*value) && !(flag && !*flag))
      fail(ErrorKind::kUsage, "{}: has no effect {}", name, why);
  }
}

}  // namespace transom
