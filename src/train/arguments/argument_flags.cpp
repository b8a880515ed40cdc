// SPDX-License-Identifier: Apache-2.0
// Flags and --help of argument tables.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "train/arguments/argument_table.h"

namespace transom {
namespace {

bool is_truth(const Argument& argument, void* record) {
  if (argument.kind != Argument::Kind::kField) return false;
  const Field field = argument.field(record);
  return std::holds_alternative<bool*>(field) || std::holds_alternative<std::optional<bool>*>(field);
}

bool is_list(const Argument& argument, void* record) {
  if (argument.kind != Argument::Kind::kField) return true;
  const Field field = argument.field(record);
  return std::holds_alternative<std::vector<std::string>*>(field) ||
         std::holds_alternative<std::optional<std::vector<std::string>>*>(field);
}

// What --help calls the values of a field.
struct TypeName {
  std::string_view operator()(bool*) const { return "[true|false]"; }
  std::string_view operator()(std::optional<bool>*) const { return "[true|false]"; }
  std::string_view operator()(int64_t*) const { return "N"; }
  std::string_view operator()(std::optional<int64_t>*) const { return "N"; }
  std::string_view operator()(double*) const { return "X"; }
  std::string_view operator()(std::optional<double>*) const { return "X"; }
  std::string_view operator()(JsonText*) const { return "JSON"; }
  std::string_view operator()(std::vector<std::string>*) const { return "TEXT..."; }
  std::string_view operator()(std::optional<std::vector<std::string>>*) const { return "TEXT..."; }
  std::string_view operator()(std::string*) const { return "TEXT"; }
  std::string_view operator()(std::optional<std::string>*) const { return "TEXT"; }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> assign_flags(std::span<const BoundTable> tables,
                                                              const std::vector<std::string>& flags,
                                                              const std::vector<std::string>& own,
                                                              std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::string>> taken;
  for (size_t i = 0; i < flags.size();) {
    const std::string& flag = flags[i];
    if (!flag.starts_with("--") || flag.size() < 3)
      fail(ErrorKind::kUsage, "{}: expected a flag such as --output_dir", transom::quoted(flag));
    std::string name = flag.substr(2, flag.find('=') == flag.npos ? flag.npos : flag.find('=') - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    std::vector<std::string> words;  // a flag's values go on to the next flag
    if (flag.find('=') != flag.npos) words.push_back(flag.substr(flag.find('=') + 1));
    for (++i; i < flags.size() && !flags[i].starts_with("--"); ++i) words.push_back(flags[i]);

    if (std::find(own.begin(), own.end(), "--" + name) != own.end()) {
      taken.emplace_back("--" + name, words.empty() ? std::string() : words[0]);
      continue;
    }
    FoundArgument found = find_argument(tables, name);
    bool negated = false;
    if (!found.argument && name.starts_with("no_")) {
      found = find_argument(tables, std::string_view(name).substr(3));
      if (found.argument && is_truth(*found.argument, found.record)) negated = true, name = name.substr(3);
      else found = {};
    }
    if (!found.argument) {
      std::vector<std::string> names = argument_names(tables, "--");
      names.insert(names.end(), own.begin(), own.end());
      fail(ErrorKind::kUsage, "{}: no such flag{}", transom::quoted(flag), did_you_mean("--" + name, names));
    }
    Json value;
    if (is_list(*found.argument, found.record)) {
      if (found.argument->kind == Argument::Kind::kField) value = words;
      else if (words.empty()) value = true;
      else value = fmt::format("{}", fmt::join(words, " "));
    } else {
      const bool truth = is_truth(*found.argument, found.record);
      if (words.size() > 1 || (negated && !words.empty()))
        fail(ErrorKind::kUsage, "--{}: expected {}, found also {}", name, negated ? "no value" : "one value",
             transom::quoted(words.back()));
      const std::string_view alone = found.argument->alone;
      if (words.empty() && !truth && alone.empty()) fail(ErrorKind::kUsage, "--{}: expected a value, found none", name);
      if (!words.empty()) value = words[0];
      else if (truth) value = !negated;
      else value = std::string(alone);
    }
    assign(tables, name, value, "--", notes);
  }
  return taken;
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
  constexpr size_t kWidth = 100, kIndent = 6;
  std::string text;
  const Json defaults = write_fields(bound);
  for (const Argument& argument : bound.table) {
    if (argument.kind == Argument::Kind::kSection) text += fmt::format("\n{}\n", argument.name);
    if (argument.kind != Argument::Kind::kField) continue;
    const std::string_view type = std::visit(TypeName(), argument.field(bound.record));
    std::string doc(argument.doc);
    if (!argument.choices.empty()) doc += fmt::format(" One of: {}.", fmt::join(argument.choices, ", "));
    const Json& standard = defaults[std::string(argument.name)];
    if (!standard.is_null() && standard != "" && standard != Json::array())
      doc += fmt::format(" (default: {})", standard.is_string() ? standard.get<std::string>() : dump_json(standard));
    text += fmt::format("  --{} {}\n", argument.name, type);
    for (size_t start = 0; start < doc.size();) {  // wrapped at spaces
      size_t end = std::min(doc.size(), start + kWidth - kIndent);
      if (end < doc.size() && doc.rfind(' ', end) != doc.npos && doc.rfind(' ', end) > start) end = doc.rfind(' ', end);
      text += std::string(kIndent, ' ') + doc.substr(start, end - start) + '\n';
      start = end + (end < doc.size() && doc[end] == ' ');
    }
  }
  return text;
}

}  // namespace transom
