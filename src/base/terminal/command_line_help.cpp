// SPDX-License-Identifier: Apache-2.0
// How --help shows options: in two columns, wrapped, under a heading for each group.
#include <algorithm>

#include "base/error.h"
#include "base/terminal/command_line.h"

namespace transom {
namespace {

constexpr size_t kWidth = 110, kHelpColumn = 32;

struct TypeName {
  std::string operator()(const std::string*) const { return "TEXT"; }
  std::string operator()(const std::optional<std::string>*) const { return "TEXT"; }
  std::string operator()(const std::vector<std::string>*) const { return "TEXT ..."; }
  std::string operator()(const int64_t*) const { return "N"; }
  std::string operator()(const double*) const { return "X"; }
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const Option::Setter&) const { return ""; }
};

struct DefaultValue {
  std::string operator()(std::string* value) const { return *value; }
  std::string operator()(int64_t* value) const { return fmt::format("{}", *value); }
  std::string operator()(double* value) const { return fmt::format("{}", *value); }
  template <typename Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

std::string type_of(const Option& option) {
  if (!option.type.empty()) return option.type;
  const std::string type = std::visit(TypeName(), option.value);
  return option.value_optional && !type.empty() ? "[" + type + "]" : type;
}

bool is_list(const Option& option) { return std::holds_alternative<std::vector<std::string>*>(option.value); }

std::string joined_names(const Option& option) {
  std::string names = option.name;
  for (size_t at = 0; (at = names.find(',', at)) != names.npos; at += 2) names.replace(at, 1, ", ");
  return names;
}

}  // namespace

std::string describe_option(const Option& option) {
  const bool positional = !option.name.starts_with("-");
  std::string left = "  " + joined_names(option);
  if (const std::string type = type_of(option); !positional && !type.empty()) left += " " + type;
  std::string help = option.help;
  const std::string standard = option.default_value.empty() && !option.required
                                   ? std::visit(DefaultValue(), option.value)
                                   : option.default_value;
  if (!standard.empty()) help += fmt::format(" (default: {})", standard);
  std::string text = left;
  if (left.size() + 2 > kHelpColumn) text += "\n" + std::string(kHelpColumn, ' ');
  else text += std::string(kHelpColumn - left.size(), ' ');
  const size_t room = kWidth - kHelpColumn;
  for (size_t start = 0; start < help.size();) {  // wrapped at spaces
    size_t end = std::min(help.size(), start + room);
    if (end < help.size())
      if (const size_t space = help.rfind(' ', end); space != help.npos && space > start) end = space;
    if (start > 0) text += "\n" + std::string(kHelpColumn, ' ');
    text += help.substr(start, end - start);
    start = end + (end < help.size() && help[end] == ' ');
  }
  text.erase(text.find_last_not_of(" \n") + 1);
  return text + "\n";
}

std::string describe_options(std::span<const Option> options) {
  std::vector<std::string> groups;  // in the order of their first option
  for (const Option& option : options)
    if (!option.hidden && std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  std::string text;
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group.empty() ? "Options" : group);
    for (const Option& option : options)
      if (!option.hidden && option.group == group) text += describe_option(option);
  }
  return text;
}

std::string usage_of(std::span<const Option> options) {
  std::string text;
  for (const Option& option : options) {
    const bool positional = !option.name.starts_with("-");
    if (option.hidden || (!positional && !option.required)) continue;
    std::string one = option.name.substr(0, option.name.find(','));
    if (positional)
      std::transform(one.begin(), one.end(), one.begin(), [](unsigned char c) { return std::toupper(c); });
    else one += " " + type_of(option);
    if (is_list(option)) one += " ...";
    text += option.required ? one + " " : "[" + one + "] ";
  }
  return text + "[OPTION ...]";
}

}  // namespace transom
