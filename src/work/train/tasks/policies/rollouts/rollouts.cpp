// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rollouts/rollouts.h"

#include "base/error.h"
#include "base/json/json.h"

namespace transom {

std::string Rollouts::text() const {
  Json all = Json::array();
  for (const Rollout& row : rows)
    all.push_back({{"tokens", row.tokens},
                   {"prompt", row.prompt},
                   {"counts", row.counts},
                   {"advantage", row.advantage},
                   {"old", row.old},
                   {"reference", row.reference},
                   {"sampled", row.sampled},
                   {"weights", row.weights}});
  return dump_json({{"number", number}, {"length", length}, {"tokens", tokens}, {"rows", all}});
}

Rollouts Rollouts::read(const std::string& text, const std::string& where) {
  const Json all = parse_json(text, where);
  try {
    Rollouts rollouts;
    rollouts.number = all.at("number").get<int64_t>();
    rollouts.length = all.at("length").get<int64_t>();
    rollouts.tokens = all.at("tokens").get<double>();
    for (const Json& each : all.at("rows")) {
      Rollout row;
      row.tokens = each.at("tokens").get<TokenIds>();
      row.prompt = each.at("prompt").get<int64_t>();
      row.counts = each.at("counts").get<bool>();
      row.advantage = each.at("advantage").get<float>();
      row.old = each.at("old").get<std::vector<float>>();
      row.reference = each.at("reference").get<std::vector<float>>();
      row.sampled = each.value("sampled", std::vector<float>());
      row.weights = each.value("weights", std::vector<float>());
      const auto length = static_cast<int64_t>(row.tokens.size());
      const auto fits = [&](const std::vector<float>& values) {
        return values.empty() || static_cast<int64_t>(values.size()) == length - row.prompt;
      };
      require(row.prompt > 0 && row.prompt < length && length <= rollouts.length && fits(row.old) &&
                  fits(row.reference) && fits(row.sampled) && (row.weights.size() == 1 || fits(row.weights)),
              "{}: expected completions behind their prompts, found others", where);
      rollouts.rows.push_back(std::move(row));
    }
    return rollouts;
  } catch (const Json::exception& error) {
    fail("{}: expected the completions of a run: {}", where, error.what());
  }
}

}  // namespace transom
