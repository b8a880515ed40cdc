// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/argument_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/numbers.h"

namespace transom {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  return text;
}

// What to call a value that was found, on one line.
std::string shown(const Json& value) {
  return value.is_string() ? transom::quoted(value.get<std::string>()) : transom::quoted(value.dump());
}

[[noreturn]] void refuse(const std::string& label, std::string_view expected, const Json& value) {
  fail(ErrorKind::kUsage, "{}: expected {}, found {}", label, expected, shown(value));
}

// ---- one value of each type

void read(bool& field, const Json& value, const std::string& label) {
  if (value.is_boolean()) return void(field = value.get<bool>());
  const std::optional<bool> truth = parse_bool(value.is_string() ? value.get<std::string>() : value.dump());
  if (!truth) refuse(label, "true or false", value);
  field = *truth;
}

void read(double& field, const Json& value, const std::string& label) {
  if (value.is_number()) return void(field = value.get<double>());
  if (!value.is_string()) refuse(label, "a number", value);
  const auto& text = value.get_ref<const std::string&>();
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, field);
  if (result.ec != std::errc() || result.ptr != end) refuse(label, "a number", value);
}

void read(int64_t& field, const Json& value, const std::string& label) {
  double number = 0;
  if (value.is_number_integer()) return void(field = value.get<int64_t>());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, field);
    if (result.ec == std::errc() && result.ptr == end) return;
    refuse(label, "a whole number", value);
  }
  if (value.is_number()) number = value.get<double>();
  if (!value.is_number() || number != std::floor(number) || std::abs(number) > 9e15)
    refuse(label, "a whole number", value);
  field = static_cast<int64_t>(number);
}

void read(std::string& field, const Json& value, const std::string& label) {
  if (!value.is_string()) refuse(label, "text", value);
  field = value.get<std::string>();
}

template <typename Type>
void read(std::vector<Type>& field, const Json& value, const std::string& label) {
  if (value.is_null()) return field.clear();
  Json values = value.is_array() ? value : Json::array({value});
  if constexpr (std::is_same_v<Type, std::string>)  // numbers are words of a list, as in flags
    for (Json& each : values)
      if (each.is_number()) each = each.dump();
  field.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) read(field[i], values[i], label);
}

void read(JsonText& field, const Json& value, const std::string& label) {
  if (value.is_null()) return field.text.clear();
  Json object = value;
  if (value.is_string()) {  // an object as text, or the file that holds it
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty() || text == "null") return field.text.clear();
    object = text.starts_with('{') ? parse_json(text, label) : read_json(text);
  }
  if (!object.is_object()) refuse(label, "a JSON object", value);
  field.text = dump_json(object);
}

template <typename Type>
void read(std::optional<Type>& field, const Json& value, const std::string& label) {
  if (value.is_null()) return field.reset();
  Type inner{};
  read(inner, value, label);
  field = std::move(inner);
}

// ---- checks after reading

void check_range(const Argument& argument, double value, const std::string& label) {
  if (value >= argument.minimum && value <= argument.maximum && !(argument.above_minimum && value == argument.minimum))
    return;
  std::vector<std::string> bounds;
  if (argument.minimum > std::numeric_limits<double>::lowest())
    bounds.push_back(fmt::format("{} {}", argument.above_minimum ? "above" : "of at least", argument.minimum));
  if (argument.maximum < std::numeric_limits<double>::max())
    bounds.push_back(fmt::format("of at most {}", argument.maximum));
  if (bounds.empty()) bounds.push_back("that is finite");
  fail(ErrorKind::kUsage, "{}: expected a number {}, found {}", label, fmt::join(bounds, " and "), value);
}

void check_choice(const Argument& argument, const std::string& value, const std::string& label) {
  if (argument.choices.empty() ||
      std::find(argument.choices.begin(), argument.choices.end(), value) != argument.choices.end())
    return;
  const std::vector<std::string> names(argument.choices.begin(), argument.choices.end());
  fail(ErrorKind::kUsage, "{}: expected one of {}, found {}{}", label, fmt::join(names, ", "), transom::quoted(value),
       did_you_mean(value, names));
}

void set_field(const Argument& argument, void* record, const Json& given, const std::string& label) {
  // A choice may be a word that JSON or a flag writes as a boolean ("true").
  const bool as_word = !argument.choices.empty() || !argument.alone.empty();
  Json value = given.is_boolean() && as_word                 ? Json(given.dump())
               : given.is_object() && argument.takes_objects ? Json(dump_json(given))
                                                             : given;
  // Words with a meaning when alone (fsdp): Transformers writes none as null or [], several as a list.
  if (!argument.alone.empty() && std::holds_alternative<std::string*>(argument.field(record))) {
    std::string words;
    if (value.is_array())
      for (const Json& word : value)
        words += (words.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
    if (value.is_array() || value.is_null()) value = words;
  }
  std::visit(Overloaded{[&](auto* field) { read(*field, value, label); }}, argument.field(record));
  std::visit(Overloaded{[&](int64_t* field) { check_range(argument, static_cast<double>(*field), label); },
                        [&](std::optional<int64_t>* field) {
                          if (*field) check_range(argument, static_cast<double>(**field), label);
                        },
                        [&](double* field) { check_range(argument, *field, label); },
                        [&](std::optional<double>* field) {
                          if (*field) check_range(argument, **field, label);
                        },
                        [&](std::string* field) { check_choice(argument, *field, label); },
                        [&](std::optional<std::string>* field) {
                          if (*field) check_choice(argument, **field, label);
                        },
                        [](auto*) {}},
             argument.field(record));
}

void accept_without_field(const Argument& argument, const Json& value, const std::string& label,
                          std::vector<std::string>& notes) {
  const std::string text = value.is_string() ? lower(value.get<std::string>()) : lower(value.dump());
  if (argument.kind == Argument::Kind::kIgnored) {
    notes.push_back(fmt::format("{} has no effect: {}", argument.name, argument.doc));
    return;
  }
  if (argument.kind == Argument::Kind::kUnavailable) fail(ErrorKind::kUsage, "{}: is {}", label, argument.doc);
  if (value.is_null() || std::find(argument.choices.begin(), argument.choices.end(), text) != argument.choices.end())
    return;
  fail(ErrorKind::kUsage, "{}: {} is not supported: {}", label, shown(value), argument.doc);
}

}  // namespace

Argument Argument::one_of(std::vector<std::string_view> values) && {
  choices = std::move(values);
  return std::move(*this);
}
Argument Argument::alone_means(std::string_view value) && {
  alone = value;
  return std::move(*this);
}
Argument Argument::at_least(double value) && {
  minimum = value;
  return std::move(*this);
}
Argument Argument::above(double value) && {
  minimum = value;
  above_minimum = true;
  return std::move(*this);
}
Argument Argument::at_most(double value) && {
  maximum = value;
  return std::move(*this);
}

Argument Argument::or_object() && {
  takes_objects = true;
  return std::move(*this);
}

Argument section(std::string_view title) { return {.kind = Argument::Kind::kSection, .name = title}; }
Argument alias(std::string_view name, std::string_view of) {
  return {.kind = Argument::Kind::kAlias, .name = name, .doc = of};
}
Argument ignored(std::string_view name, std::string_view why) {
  return {.kind = Argument::Kind::kIgnored, .name = name, .doc = why};
}
Argument unavailable(std::string_view name, std::string_view what) {
  return {.kind = Argument::Kind::kUnavailable, .name = name, .doc = what};
}
Argument only_default(std::string_view name, std::vector<std::string_view> accepted, std::string_view why) {
  return {.kind = Argument::Kind::kOnlyDefault, .name = name, .doc = why, .choices = std::move(accepted)};
}

FoundArgument find_argument(std::span<const BoundTable> tables, std::string_view name) {
  for (const BoundTable& bound : tables)
    for (const Argument& argument : bound.table) {
      if (argument.kind == Argument::Kind::kSection || argument.name != name) continue;
      if (argument.kind == Argument::Kind::kAlias) return find_argument(tables, argument.doc);
      return {&argument, bound.record, bound.given};
    }
  return {};
}

std::vector<std::string> argument_names(std::span<const BoundTable> tables, std::string_view prefix) {
  std::vector<std::string> names;
  for (const BoundTable& bound : tables)
    for (const Argument& argument : bound.table)
      if (argument.kind != Argument::Kind::kSection) names.push_back(std::string(prefix) + std::string(argument.name));
  return names;
}

void assign(std::span<const BoundTable> tables, std::string_view name, const Json& value, std::string_view where,
            std::vector<std::string>& notes) {
  const std::string label = fmt::format("{}{}", where, name);
  const FoundArgument found = find_argument(tables, name);
  if (!found.argument)
    fail(ErrorKind::kUsage, "{}: no such argument{}", transom::quoted(label),
         did_you_mean(name, argument_names(tables, "")));
  if (found.argument->kind != Argument::Kind::kField) {
    accept_without_field(*found.argument, value, label, notes);
    return;
  }
  set_field(*found.argument, found.record, value, label);
  if (found.given) found.given->emplace_back(found.argument->name);
}

void assign_all(std::span<const BoundTable> tables, const Json& object, std::string_view where,
                std::vector<std::string>& notes) {
  if (!object.is_object()) fail(ErrorKind::kUsage, "{}: expected a JSON object of arguments", where);
  for (const auto& [name, value] : object.items()) assign(tables, name, value, fmt::format("{}: ", where), notes);
}

Json write_fields(const BoundTable& bound) {
  Json result = Json::object();
  for (const Argument& argument : bound.table) {
    if (argument.kind != Argument::Kind::kField) continue;
    const auto plain = [](const auto& value) { return Json(value); };
    result[std::string(argument.name)] = std::visit(
        Overloaded{
            [&](JsonText* field) { return field->text.empty() ? Json() : parse_json(field->text, argument.name); },
            [&]<typename Type>(std::optional<Type>* field) { return *field ? plain(**field) : Json(); },
            [&](auto* field) { return plain(*field); }},
        argument.field(bound.record));
  }
  return result;
}

}  // namespace transom
