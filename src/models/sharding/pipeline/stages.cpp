// SPDX-License-Identifier: Apache-2.0
#include "models/sharding/pipeline/stages.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace transom {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string unit_of_weight(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (is_number(name.substr(begin, end - begin))) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  const size_t last = name.rfind('.');
  return std::string(last == name.npos ? name : name.substr(0, last));
}

PipelineStages::PipelineStages(const std::vector<StagedWeight>& weights, int64_t stages, int64_t processes)
    : stages_(stages), processes_(processes) {
  for (const StagedWeight& weight : weights) {
    const std::string name = unit_of_weight(weight.name);
    auto found = std::find_if(units_.begin(), units_.end(), [&](const Unit& unit) { return unit.name == name; });
    if (found == units_.end()) found = units_.insert(units_.end(), {name, 0, 0});
    found->cost += weight.cost;
  }
  const auto count = static_cast<int64_t>(units_.size());
  if (count < stages)
    fail(ErrorKind::kUsage, "pp_size {} x pp_chunks {}: expected at most {}, the layers and other parts of the model",
         processes, stages / processes, count);
  // best[s][i]: the least cost of the most costly of s stages that have the first i units.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const auto n = static_cast<size_t>(count), p = static_cast<size_t>(stages);
  std::vector<int64_t> sums(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + units_[i].cost;
  std::vector<std::vector<int64_t>> best(p + 1, std::vector<int64_t>(n + 1, kNone));
  std::vector<std::vector<size_t>> border(p + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t s = 1; s <= p; ++s)
    for (size_t i = s; i <= n; ++i)
      for (size_t k = s - 1; k < i; ++k) {
        if (best[s - 1][k] == kNone) continue;
        const int64_t cost = std::max(best[s - 1][k], sums[i] - sums[k]);
        if (cost < best[s][i]) best[s][i] = cost, border[s][i] = k;
      }
  for (size_t s = p, end = n; s > 0; --s) {
    const size_t begin = border[s][end];
    for (size_t i = begin; i < end; ++i) units_[i].stage = static_cast<int64_t>(s) - 1;
    end = begin;
  }
}

std::optional<int64_t> PipelineStages::stage_of(std::string_view name) const {
  // The unit that the name lies in.
  for (std::string_view prefix = name;;) {
    for (const Unit& unit : units_)
      if (unit.name == prefix) return unit.stage;
    const size_t last = prefix.rfind('.');
    if (last == prefix.npos) break;
    prefix = prefix.substr(0, last);
  }
  // A module whose units are all in one stage.
  std::optional<int64_t> stage;
  const std::string inside = std::string(name) + ".";
  for (const Unit& unit : units_)
    if (!name.empty() && unit.name.starts_with(inside)) {
      if (stage && *stage != unit.stage) return std::nullopt;
      stage = unit.stage;
    }
  return stage;
}

std::vector<std::string> PipelineStages::describe() const {
  std::vector<std::string> result(static_cast<size_t>(stages_));
  for (size_t i = 0; i < units_.size(); ++i) {
    std::string& text = result[static_cast<size_t>(units_[i].stage)];
    if (text.empty()) text = units_[i].name;
    else if (i + 1 == units_.size() || units_[i + 1].stage != units_[i].stage) text += " .. " + units_[i].name;
  }
  return result;
}

}  // namespace transom
