// SPDX-License-Identifier: Apache-2.0
// Flags and --help of argument tables.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/command_line.h"
#include "work/train/arguments/argument_table.h"

namespace transom {
namespace {

struct TypeName {
  std::string_view operator()(bool*) const { return "[true|false]"; }
  std::string_view operator()(std::optional<bool>*) const { return "[true|false]"; }
  std::string_view operator()(int64_t*) const { return "N"; }
  std::string_view operator()(std::optional<int64_t>*) const { return "N"; }
  std::string_view operator()(double*) const { return "X"; }
  std::string_view operator()(std::optional<double>*) const { return "X"; }
  std::string_view operator()(std::vector<double>*) const { return "X ..."; }
  std::string_view operator()(JsonText*) const { return "JSON"; }
  std::string_view operator()(std::vector<std::string>*) const { return "TEXT ..."; }
  std::string_view operator()(std::optional<std::vector<std::string>>*) const { return "TEXT ..."; }
  std::string_view operator()(std::string*) const { return "TEXT"; }
  std::string_view operator()(std::optional<std::string>*) const { return "TEXT"; }
};

template <typename Type>
bool holds(const Field& field) {
  return std::holds_alternative<Type*>(field) || std::holds_alternative<std::optional<Type>*>(field);
}

// The option that sets the row's field, or that answers for a name without one.
Option option_of(const Argument& row, std::span<const BoundTable> tables, std::vector<std::string>& notes) {
  const std::string name(row.name);
  Option option{.name = "--" + name, .hidden = true};
  const FoundArgument found = find_argument(tables, row.name);
  bool list = true;  // of a name without a field all words are taken
  if (found.argument->kind == Argument::Kind::kField) {
    const Field field = found.argument->field(found.record);
    list = holds<std::vector<std::string>>(field) || std::holds_alternative<std::vector<double>*>(field);
    option.value_optional = holds<bool>(field);
  }
  const bool has_field = found.argument->kind == Argument::Kind::kField;
  const std::string alone(found.argument->alone);
  if (list) option.takes = Option::Words::kMany;
  else if (!alone.empty()) option.takes = Option::Words::kOneOrNone;
  option.value = [=, &notes](const std::vector<std::string>& words) {
    Json value;
    if (list && has_field) value = words;
    else if (words.empty()) value = has_field ? Json(alone) : Json(true);
    else value = list ? fmt::format("{}", fmt::join(words, " ")) : words[0];
    assign(tables, name, value, "--", notes);
  };
  return option;
}

}  // namespace

bool assign_flags(std::span<const BoundTable> tables, const std::vector<std::string>& flags, std::vector<Option> own,
                  std::vector<std::string>& notes) {
  for (const BoundTable& bound : tables)
    for (const Argument& row : bound.table)
      if (row.kind != Argument::Kind::kSection) own.push_back(option_of(row, tables, notes));
  return parse_command_line(own, flags);
}

std::vector<std::pair<std::string, std::string>> name_values(std::string_view text, std::string_view where) {
  const auto trimmed = [](std::string_view part) {
    const size_t begin = part.find_first_not_of(' ');
    return begin == part.npos ? std::string() : std::string(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
  };
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!trimmed(text).empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const size_t equals = part.find('=');
    if (equals == part.npos || trimmed(part.substr(0, equals)).empty())
      fail(ErrorKind::kUsage, "{}: expected name=value,name=value, found {}", where, transom::quoted(part));
    pairs.emplace_back(trimmed(part.substr(0, equals)), trimmed(part.substr(equals + 1)));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return pairs;
}

std::string describe(const BoundTable& bound) {
  std::string text;
  const Json defaults = write_fields(bound);
  for (const Argument& argument : bound.table) {
    if (argument.kind == Argument::Kind::kSection) text += fmt::format("\n{}:\n", argument.name);
    if (argument.kind != Argument::Kind::kField) continue;
    Option option{.name = fmt::format("--{}", argument.name), .help = std::string(argument.doc)};
    option.value = Option::Setter();
    option.type = std::visit(TypeName(), argument.field(bound.record));
    if (!argument.choices.empty()) option.help += fmt::format(" One of: {}.", fmt::join(argument.choices, ", "));
    const Json& standard = defaults[std::string(argument.name)];
    if (!standard.is_null() && standard != "" && standard != Json::array())
      option.default_value = standard.is_string() ? standard.get<std::string>() : dump_json(standard);
    text += describe_option(option);
  }
  return text;
}

}  // namespace transom
