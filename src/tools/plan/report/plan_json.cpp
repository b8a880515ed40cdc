// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "tools/plan/plan.h"

namespace transom {
namespace {

// Six digits; a whole number is written as one.
Json rounded(double value) {
  if (!std::isfinite(value)) return {};
  const double short_value = std::stod(fmt::format("{:.6g}", value));
  if (short_value == std::floor(short_value) && std::abs(short_value) < 0x1p53)
    return static_cast<int64_t>(short_value);
  return short_value;
}
Json bytes(double value) { return static_cast<int64_t>(std::clamp(std::round(value), 0.0, 0x1p62)); }
Json known(double value) { return value > 0 ? rounded(value) : Json(); }

Json layout_json(const Layout& layout) {
  const char* const kRecompute[] = {"none", "attention", "full"};
  return {{"dp", rounded(layout.data)},
          {"tp", rounded(layout.tensor)},
          {"pp", rounded(layout.pipeline)},
          {"cp", rounded(layout.context)},
          {"ep", rounded(layout.expert)},
          {"zero", rounded(layout.zero)},
          {"recompute", kRecompute[static_cast<int>(layout.recompute)]},
          {"micro_batch", rounded(layout.micro_batch)},
          {"accumulation", rounded(layout.accumulation)},
          {"lora_rank", rounded(layout.lora_rank)}};
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json json;
  if (!plan.job.id.empty()) json["id"] = plan.job.id;
  json["model"] = plan.model, json["task"] = name_of(plan.job.task);
  json["hardware"] = plan.device, json["devices"] = rounded(plan.job.devices);
  json["samples_per_second"] = rounded(plan.samples_per_second);
  json["tokens_per_second"] = rounded(plan.tokens_per_second);
  json["step_seconds"] = rounded(plan.step_seconds);
  json["batch"] = rounded(plan.batch);
  json["memory_bytes_per_device"] = bytes(plan.memory.total());
  json["memory"] = {{"weights", bytes(plan.memory.weights)},       {"gradients", bytes(plan.memory.gradients)},
                    {"optimizer", bytes(plan.memory.optimizer)},   {"activations", bytes(plan.memory.activations)},
                    {"key_value_cache", bytes(plan.memory.cache)}, {"reserve", bytes(plan.memory.reserve)}};
  json["fits"] = plan.fits;
  json["usd_per_hour"] = known(plan.usd_per_hour);
  json["usd_per_million_tokens"] = known(plan.usd_per_million_tokens);
  json["price_source"] = plan.price_source;
  json["watts"] = known(plan.watts);
  json["joules_per_token"] = known(plan.joules_per_token);
  json["availability"] = rounded(plan.availability);
  json["layout"] = layout_json(plan.layout);
  if (plan.second_step_seconds > 0) {
    json["second_layout"] = layout_json(plan.second_layout);
    json["second_layout"]["step_seconds"] = rounded(plan.second_step_seconds);
  }
  json["time"] = {
      {"matrix", rounded(plan.time.matrix)}, {"vector", rounded(plan.time.vector)},
      {"memory", rounded(plan.time.memory)}, {"exposed_communication", rounded(plan.time.exposed_communication)},
      {"bubble", rounded(plan.time.bubble)}, {"fixed", rounded(plan.time.fixed)}};
  json["first_token_seconds"] = known(plan.first_token_seconds);
  json["token_seconds"] = known(plan.token_seconds);
  json["request_seconds"] = known(plan.request_seconds);
  json["assumptions"] = plan.assumptions;
  const PastError& past = plan.past_error;
  json["past_error"] = {{"median_percent", rounded(past.median_percent)},
                        {"two_thirds_within_percent", rounded(past.within_percent)},
                        {"rows", past.rows},
                        {"kind", past.kind},
                        {"nearest", past.nearest},
                        {"nearest_ratio", rounded(past.nearest_ratio)}};
  return dump_json(json, 2);
}

}  // namespace transom
