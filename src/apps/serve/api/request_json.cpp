// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/request_json.h"

#include <cmath>

#include "base/json/json_errors.h"

namespace transom::serve {

namespace {

// `where` begins the errors of its syntax.
Json parse_strictly(std::string_view text, const JsonLimits& limits, std::string_view where) {
  std::vector<std::set<std::string, std::less<>>> keys;  // of each object that is open
  size_t comparisons = 0;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= limits.depth)
        throw ApiError(400, fmt::format("the JSON is nested deeper than {} levels", limits.depth));
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        throw ApiError(400, fmt::format("the JSON holds the key {} twice", quoted(key)));
      if (keys.back().size() > limits.keys)
        throw ApiError(400, fmt::format("an object of the JSON has more than {} keys", limits.keys));
      comparisons += keys.back().size();
      if (comparisons > limits.comparisons) throw ApiError(400, "the JSON has too many objects of very many keys");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::parse_error& error) {
    throw ApiError(400, fmt::format("{}{}", where, json_syntax_error(text, error.byte)));
  } catch (const Json::exception& error) {
    throw ApiError(400, fmt::format("{}{}", where, json_reason(error)));
  }
}

}  // namespace

Json parse_request_json(std::string_view text, const JsonLimits& limits) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) throw ApiError(400, "the body is empty: expected a JSON object");
  return parse_strictly(text, limits, "the body is not valid JSON: ");
}

Json parse_json_field(std::string_view text, const std::string& field) {
  try {
    return parse_strictly(text, {}, "");
  } catch (const ApiError& error) {
    throw ApiError(error.status(), fmt::format("{}: {}", field, error.what()), field);
  }
}

std::string compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

RequestFields::RequestFields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    refuse_field(path_, "{}: expected a JSON object, found {}", path_.empty() ? "the body" : path_, object.type_name());
}

const Json* RequestFields::find(const char* name) {
  asked_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> RequestFields::integer(const char* name, int64_t least, int64_t most) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  int64_t value = 0;
  bool whole = found->is_number_integer();
  if (whole) {
    if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) whole = false;
    else value = found->get<int64_t>();
  } else if (found->is_number_float()) {  // 5.0 is 5 to clients of some languages
    const double number = found->get<double>();
    whole = number == std::floor(number) && std::abs(number) < 9e15;
    if (whole) value = static_cast<int64_t>(number);
  }
  if (!whole || value < least || value > most)
    refuse_field(name_of(name), "{}: expected a whole number from {} to {}, found {}", name_of(name), least, most,
                 quoted(compact(*found)));
  return value;
}

std::optional<double> RequestFields::number(const char* name, double least, double most) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : NAN;
  if (!(value >= least && value <= most))
    refuse_field(name_of(name), "{}: expected a number from {} to {}, found {}", name_of(name), least, most,
                 quoted(compact(*found)));
  return value;
}

std::optional<bool> RequestFields::boolean(const char* name) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  if (!found->is_boolean())
    refuse_field(name_of(name), "{}: expected true or false, found {}", name_of(name), quoted(compact(*found)));
  return found->get<bool>();
}

std::optional<std::string> RequestFields::text(const char* name, size_t most_bytes) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  if (!found->is_string())
    refuse_field(name_of(name), "{}: expected a string, found {}", name_of(name), quoted(compact(*found)));
  const auto& value = found->get_ref<const std::string&>();
  if (value.size() > most_bytes)
    refuse_field(name_of(name), "{}: expected at most {} bytes, found {}", name_of(name), most_bytes, value.size());
  return value;
}

std::optional<std::vector<std::string>> RequestFields::texts(const char* name, size_t most, size_t most_bytes) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  std::vector<std::string> values;
  const auto add = [&](const Json& item) {
    if (!item.is_string())
      refuse_field(name_of(name), "{}: expected a string or a list of strings, found {}", name_of(name),
                   quoted(compact(item)));
    if (item.get_ref<const std::string&>().size() > most_bytes)
      refuse_field(name_of(name), "{}: expected strings of at most {} bytes", name_of(name), most_bytes);
    values.push_back(item.get<std::string>());
  };
  if (found->is_array()) {
    if (found->size() > most)
      refuse_field(name_of(name), "{}: expected at most {} items, found {}", name_of(name), most, found->size());
    for (const Json& item : *found) add(item);
  } else {
    add(*found);
  }
  return values;
}

std::optional<std::string> RequestFields::choice(const char* name, const std::vector<std::string>& words) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  if (found->is_string())
    for (const std::string& word : words)
      if (*found == word) return word;
  refuse_field(name_of(name), "{}: expected {}, found {}", name_of(name), fmt::join(words, " or "),
               quoted(compact(*found)));
}

const Json* RequestFields::any(const char* name) { return find(name); }

const Json* RequestFields::object(const char* name) {
  const Json* found = find(name);
  if (found && !found->is_object())
    refuse_field(name_of(name), "{}: expected an object, found {}", name_of(name), quoted(compact(*found)));
  return found;
}

const Json* RequestFields::list(const char* name, size_t most) {
  const Json* found = find(name);
  if (!found) return nullptr;
  if (!found->is_array())
    refuse_field(name_of(name), "{}: expected a list, found {}", name_of(name), quoted(compact(*found)));
  if (found->size() > most)
    refuse_field(name_of(name), "{}: expected at most {} items, found {}", name_of(name), most, found->size());
  return found;
}

std::vector<std::string> RequestFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!asked_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace transom::serve
