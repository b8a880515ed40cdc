// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/class_names.h"

#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

using Ids = std::optional<std::vector<int64_t>>;

// Each label's class by its name, of which no two may be one.
template <typename Name>
Ids by_name(const std::vector<std::string>& labels, const std::vector<std::string>& classes, const Name& name) {
  std::map<std::string, int64_t> known;
  for (size_t i = 0; i < classes.size(); ++i)
    if (!known.emplace(name(classes[i]), static_cast<int64_t>(i)).second) return std::nullopt;
  std::vector<int64_t> ids;
  std::set<int64_t> taken;
  for (const std::string& label : labels) {
    const auto found = known.find(name(label));
    if (found == known.end() || !taken.insert(found->second).second) return std::nullopt;
    ids.push_back(found->second);
  }
  return ids;
}

// "7", but not "07".
std::optional<int64_t> whole_number(const std::string& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || std::to_string(number) != name) return std::nullopt;
  return number;
}

// Classes that are called by numbers themselves are not meant by their places.
Ids by_number(const std::vector<std::string>& labels, const std::vector<std::string>& classes) {
  for (const std::string& name : classes)
    if (whole_number(name)) return std::nullopt;
  std::vector<int64_t> ids;
  for (const std::string& label : labels) {
    const auto number = whole_number(label);
    if (!number || *number < 0 || *number >= static_cast<int64_t>(classes.size())) return std::nullopt;
    ids.push_back(*number);
  }
  return ids;
}

}  // namespace

bool are_unnamed(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i)
    if (classes[i] != fmt::format("LABEL_{}", i)) return false;
  return true;
}

ClassMatch match_classes(const std::vector<std::string>& labels, const std::vector<std::string>& classes) {
  using enum ClassMatch::How;
  if (Ids ids = by_name(labels, classes, [](const std::string& name) { return name; })) return {kSame, std::move(*ids)};
  if (Ids ids = by_name(labels, classes, text::without_case)) return {kWithoutCase, std::move(*ids)};
  if (Ids ids = by_number(labels, classes)) return {kNumbers, std::move(*ids)};
  if (labels.size() != classes.size() || !are_unnamed(classes)) return {};
  ClassMatch match{kInOrder, {}};
  for (size_t i = 0; i < labels.size(); ++i) match.ids.push_back(static_cast<int64_t>(i));
  return match;
}

std::string listed_names(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

}  // namespace transom
