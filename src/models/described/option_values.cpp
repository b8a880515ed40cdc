// SPDX-License-Identifier: Apache-2.0
#include "models/described/option_values.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/described/option_operators.h"

namespace transom {
namespace {

constexpr std::string_view kLazy[] = {"if", "first", "all", "any", "not"};
constexpr std::string_view kLayer = "layer", kFieldsOfLayers = "per_layer_config";

bool is_lazy(std::string_view name) { return std::find(std::begin(kLazy), std::end(kLazy), name) != std::end(kLazy); }

// A name that an option refers to; empty: a constant.
std::string name_in(const Json& option) {
  if (!option.is_string()) return {};
  const auto& text = option.get_ref<const std::string&>();
  return text.size() > 1 && text[0] == '$' ? text.substr(1) : std::string();
}

const Json& arguments_of(const Json& option) { return option.begin().value(); }

std::string shortly(const Json& value) { return quoted(dump_json(value), 100); }

const Json& part_of(const Json& file, const char* name) {
  static const Json kNone = Json::object();
  const auto found = file.find(name);
  return found == file.end() || !found->is_object() ? kNone : *found;
}

bool is_field_of_layers(const Json& file, const std::string& name) {
  const auto fields = file.find("layer_fields");
  return fields != file.end() && fields->is_array() && std::find(fields->begin(), fields->end(), name) != fields->end();
}

}  // namespace

const Json* json_at(const Json& object, std::string_view path) {
  if (!object.is_object()) return nullptr;
  const size_t dot = path.find('.');
  const auto found = object.find(std::string(path.substr(0, dot)));
  if (found == object.end()) return nullptr;
  return dot == path.npos ? &*found : json_at(*found, path.substr(dot + 1));
}

// One value: how deep it has come, and how much it has cost, which files from outside could make without end.
struct OptionValues::Walk {
  static constexpr int kDeepest = 64, kMostSteps = 20000;
  const OptionValues& values;
  const OptionPlace& place;
  int steps = 0;
  std::vector<std::string> open = {};  // values whose own option is being computed

  Json value(const Json& option, int depth) {
    if (depth > kDeepest || ++steps > kMostSteps) fail("{}: the option refers to itself, or is too large", place.path);
    if (option.is_object()) return operation(option, depth);
    const std::string name = name_in(option);
    return name.empty() ? option : named(name, depth);
  }

  Json named(const std::string& name, int depth) {
    if (name == kLayer) {
      if (!place.layer) fail("{}: $layer is known of layers alone", place.path);
      return *place.layer;
    }
    const Json& own = part_of(values.file_, "values");
    const auto found = own.find(name);
    // A value may be made of the field of its name.
    if (found == own.end() || std::find(open.begin(), open.end(), name) != open.end())
      return values.field(name, place.layer);
    open.push_back(name);
    Json result = value(*found, depth + 1);
    open.pop_back();
    return result;
  }

  Json operation(const Json& option, int depth) {
    if (option.size() != 1) fail("{}: expected one operator, found {}", place.path, shortly(option));
    const std::string name = option.begin().key();
    const Json& given = arguments_of(option);
    const size_t count = given.is_array() ? given.size() : 1;
    const auto argument = [&](size_t i) { return value(given.is_array() ? given[i] : given, depth + 1); };
    const auto holds = [&](size_t i) { return is_true(argument(i)); };
    if (name == "not" && count == 1) return !holds(0);
    if (name == "if" && count == 3) return argument(holds(0) ? 1 : 2);
    if (name == "first" || name == "all" || name == "any") {
      for (size_t i = 0; i < count; ++i) {
        Json found = argument(i);
        if (name == "first" ? !found.is_null() : is_true(found) == (name == "any"))
          return name == "first" ? found : Json(name == "any");
      }
      return name == "first" ? Json() : Json(name == "all");
    }
    const OptionOperator* known = find_option_operator(name);
    if (!known || count < known->least || count > known->most)
      fail("{}: unknown operator, or a wrong number of arguments: {}", place.path, shortly(option));
    std::vector<Json> arguments;
    for (size_t i = 0; i < count; ++i) arguments.push_back(argument(i));
    return known->apply(arguments, place.path);
  }

  bool is_true(const Json& value) const {
    if (value.is_null()) return false;
    if (value.is_number()) return value.get<double>() != 0;
    if (!value.is_boolean()) fail("{}: expected true or false, found {}", place.path, shortly(value));
    return value.get<bool>();
  }
};

Json OptionValues::value(const Json& option, const OptionPlace& place) const {
  return Walk{*this, place}.value(option, 0);
}

bool OptionValues::flag(const Json& option, const OptionPlace& place) const {
  Walk walk{*this, place};
  return walk.is_true(walk.value(option, 0));
}

int64_t OptionValues::whole(const Json& option, const OptionPlace& place) const {
  const Json found = value(option, place);
  if (found.is_null()) fail("{}: {}: {} is missing", config_.where(), place.path, shortly(option));
  constexpr int64_t kLargest = int64_t{1} << 40;
  if (!found.is_number() || found.get<double>() != std::floor(found.get<double>()) ||
      std::abs(found.get<double>()) > static_cast<double>(kLargest))
    fail("{}: {}: expected a whole number, found {}", config_.where(), place.path, shortly(found));
  return static_cast<int64_t>(found.get<double>());
}

double OptionValues::real(const Json& option, const OptionPlace& place) const {
  const Json found = value(option, place);
  if (found.is_null()) fail("{}: {}: {} is missing", config_.where(), place.path, shortly(option));
  if (!found.is_number() || !std::isfinite(found.get<double>()))
    fail("{}: {}: expected a number, found {}", config_.where(), place.path, shortly(found));
  return found.get<double>();
}

std::string OptionValues::text(const Json& option, const OptionPlace& place) const {
  const Json found = value(option, place);
  if (found.is_null()) return {};
  if (!found.is_string()) fail("{}: {}: expected a text, found {}", config_.where(), place.path, shortly(found));
  return found.get<std::string>();
}

Json OptionValues::field(const std::string& name, std::optional<int64_t> layer) const {
  if (layer && is_field_of_layers(file_, name)) {
    config_.has(kFieldsOfLayers);
    const Json* own = json_at(json_of(config_), fmt::format("{}.{}.{}", kFieldsOfLayers, *layer, name));
    if (own && !own->is_null()) return *own;
  }
  const std::string first = name.substr(0, name.find('.'));
  config_.has(first);  // it was read
  const Json* found = json_at(json_of(config_), name);
  for (const auto& [other, own] : part_of(file_, "aliases").items()) {
    if (own != name) continue;
    config_.has(other);
    const Json* alias = json_at(json_of(config_), other);
    if (alias && found && *alias != *found)
      fail("{}: {} = {} and {} = {} are one field; leave one of them out", config_.where(), name, shortly(*found),
           other, shortly(*alias));
    if (alias) found = alias;
  }
  if (!found) found = json_at(part_of(file_, "defaults"), name);
  return found ? *found : Json();
}

void check_option(const Json& file, const Json& option, const std::string& path, bool by_layer,
                  std::vector<std::string>& findings) {
  const Json &values = part_of(file, "values"), &defaults = part_of(file, "defaults");
  if (const std::string name = name_in(option); !name.empty()) {
    if (name == kLayer ? by_layer : values.contains(name) || json_at(defaults, name)) return;
    std::vector<std::string> known;
    for (const Json* each : {&values, &defaults})
      for (const auto& [key, value] : each->items()) known.push_back(key);
    findings.push_back(name == kLayer ? fmt::format("{}: $layer is known of layers alone", path)
                                      : fmt::format("{}: {} is neither among the values nor among the defaults{}", path,
                                                    quoted(name, 100), did_you_mean(name, known)));
    return;
  }
  if (!option.is_object()) return;
  const std::string name = option.size() == 1 ? option.begin().key() : "";
  const OptionOperator* known = find_option_operator(name);
  if (!known && !is_lazy(name)) {
    std::vector<std::string> names(std::begin(kLazy), std::end(kLazy));
    for (const OptionOperator& each : option_operators()) names.emplace_back(each.name);
    findings.push_back(fmt::format("{}: expected an object of one operator, found {} Known are: {}", path,
                                   shortly(option), fmt::join(names, ", ")));
    return;
  }
  const Json& given = arguments_of(option);
  const size_t count = given.is_array() ? given.size() : 1;
  const size_t least = known          ? known->least
                       : name == "if" ? 3
                                      : 1,
               most = known           ? known->most
                      : name == "if"  ? 3
                      : name == "not" ? 1
                                      : 16;
  if (count < least || count > most)
    findings.push_back(fmt::format("{}: {}: expected {} arguments, found {}", path, name,
                                   least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
                                   count));
  if (!given.is_array()) return check_option(file, given, path, by_layer, findings);
  for (const Json& argument : given) check_option(file, argument, path, by_layer, findings);
}

}  // namespace transom
