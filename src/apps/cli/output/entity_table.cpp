// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/entity_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace transom {
namespace {

constexpr std::array<std::string_view, 4> kScores = {"_precision", "_recall", "_f1", "_number"};

struct EntityLine {
  std::string kind;
  std::array<double, 4> values{};
  size_t found = 0;
};

// "eval_LOC_f1" is score 2 of "LOC"; scores over all kinds are none of one.
std::pair<std::string, size_t> entity_score(std::string_view name) {
  const size_t begin = name.find('_');
  if (begin == name.npos) return {"", 0};
  name.remove_prefix(begin + 1);
  for (size_t i = 0; i < kScores.size(); ++i)
    if (name.ends_with(kScores[i]) && name.size() > kScores[i].size())
      return {std::string(name.substr(0, name.size() - kScores[i].size())), i};
  return {"", 0};
}

}  // namespace

std::string take_entity_table(Metrics& metrics) {
  std::map<std::string, EntityLine> kinds;
  for (const auto& [name, value] : metrics)
    if (auto [kind, score] = entity_score(name); !kind.empty()) {
      EntityLine& line = kinds[kind];
      line.kind = kind, line.values[score] = value, ++line.found;
    }
  std::vector<EntityLine> lines;
  for (const auto& [kind, line] : kinds)
    if (line.found == kScores.size()) lines.push_back(line);
  if (lines.empty()) return "";
  std::erase_if(metrics, [&](const auto& metric) {
    const std::string kind = entity_score(metric.first).first;
    return !kind.empty() && kinds[kind].found == kScores.size();
  });
  std::stable_sort(lines.begin(), lines.end(),
                   [](const EntityLine& a, const EntityLine& b) { return a.values[3] > b.values[3]; });
  size_t width = 4;
  for (const EntityLine& line : lines) width = std::max(width, line.kind.size());
  std::string table = fmt::format("{:<{}}  precision  recall      f1  number\n", "kind", width);
  for (const EntityLine& line : lines)
    table += fmt::format("{:<{}}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>6.0f}\n", line.kind, width, line.values[0],
                         line.values[1], line.values[2], line.values[3]);
  return table;
}

}  // namespace transom
