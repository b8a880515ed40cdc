// SPDX-License-Identifier: Apache-2.0
// Plans as people read them: one in full, several as a table.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "tools/plan/plan.h"

namespace transom {
namespace {

std::string quantity(double value) {
  if (value <= 0) return "-";
  for (const auto& [unit, size] : {std::pair{"G", 1e9}, {"M", 1e6}, {"k", 1e4}})
    if (value >= size) return fmt::format("{:.3g} {}", value / (size == 1e4 ? 1e3 : size), unit);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string seconds(double value) {
  if (value <= 0) return "-";
  if (value < 1e-3) return fmt::format("{:.3g} us", value * 1e6);
  return value < 1 ? fmt::format("{:.3g} ms", value * 1e3) : fmt::format("{:.3g} s", value);
}

std::string gigabytes(double bytes) { return fmt::format("{:.3g} GB", bytes / 1e9); }

std::string one_plan(const Plan& plan) {
  const Job& job = plan.job;
  std::string text = fmt::format("{}, {}, on {} x {}\n", plan.model, name_of(job.task), job.devices, plan.device);
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<22} {}\n", name, value);
  };
  if (is_training(job.task)) line("step", seconds(plan.step_seconds));
  if (job.task == JobTask::kInfer) line("latency", seconds(plan.step_seconds));
  if (job.task == JobTask::kGenerate) {
    line("first token", seconds(plan.first_token_seconds));
    line("each further token", seconds(plan.token_seconds));
    line("request", seconds(plan.request_seconds));
  }
  line("batch", quantity(plan.batch));
  line("samples a second", quantity(plan.samples_per_second));
  line("tokens a second", quantity(plan.tokens_per_second));
  if (plan.past_error.rows > 0)
    line("past error", fmt::format("median {:.0f} %, two thirds within {:.0f} %, of {} published figures ({})",
                                   plan.past_error.median_percent, plan.past_error.within_percent, plan.past_error.rows,
                                   plan.past_error.kind));
  if (!plan.past_error.nearest.empty())
    line("nearest figure", fmt::format("{}, predicted {:.2f} of what was published", plan.past_error.nearest,
                                       plan.past_error.nearest_ratio));
  line("layout", text_of(plan.layout));
  if (plan.second_step_seconds > 0)
    line("next best layout",
         fmt::format("{} ({} a step)", text_of(plan.second_layout), seconds(plan.second_step_seconds)));
  line("memory a device", fmt::format("{}{}", gigabytes(plan.memory.total()), plan.fits ? "" : ", does not fit"));
  std::string parts;
  for (const auto& [name, bytes] :
       std::array<std::pair<const char*, double>, 6>{{{"weights", plan.memory.weights},
                                                      {"gradients", plan.memory.gradients},
                                                      {"optimizer", plan.memory.optimizer},
                                                      {"activations", plan.memory.activations},
                                                      {"cache", plan.memory.cache},
                                                      {"reserve", plan.memory.reserve}}})
    if (bytes > 0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, gigabytes(bytes));
  line("", parts);
  const double total = std::max(1e-30, plan.time.total());
  parts.clear();
  for (const auto& [name, value] :
       std::array<std::pair<const char*, double>, 6>{{{"products", plan.time.matrix},
                                                      {"between products", plan.time.vector},
                                                      {"memory", plan.time.memory},
                                                      {"communication", plan.time.exposed_communication},
                                                      {"bubble", plan.time.bubble},
                                                      {"host and launches", plan.time.fixed}}})
    if (value > 0.005 * total)
      parts += fmt::format("{}{} {:.0f} %", parts.empty() ? "" : ", ", name, 100 * value / total);
  line("time goes to", parts);
  if (plan.usd_per_hour > 0)
    line("cost", fmt::format("{:.2f} USD an hour, {:.3g} USD a million tokens ({})", plan.usd_per_hour,
                             plan.usd_per_million_tokens, plan.price_source));
  else line("cost", "no price is known; --price USD gives that of a host and hour");
  if (plan.watts > 0) line("energy", fmt::format("{}W, {:.3g} J a token", quantity(plan.watts), plan.joules_per_token));
  if (plan.availability < 0.9995)
    line("useful time", fmt::format("{:.1f} % (failures, recovery, checkpoints)", 100 * plan.availability));
  for (const std::string& assumption : plan.assumptions) line("assumed", assumption);
  return text;
}

}  // namespace

std::string plan_table(const std::vector<Plan>& plans) {
  if (plans.size() == 1) return one_plan(plans[0]);
  std::vector<std::array<std::string, 9>> rows = {
      {"hardware", "devices", "samples/s", "tokens/s", "memory", "USD/Mtoken", "J/token", "past error", "layout"}};
  for (const Plan& plan : plans)
    rows.push_back({plan.device, fmt::format("{}", plan.job.devices), quantity(plan.samples_per_second),
                    quantity(plan.tokens_per_second), gigabytes(plan.memory.total()) + (plan.fits ? "" : " !"),
                    plan.usd_per_million_tokens > 0 ? fmt::format("{:.3g}", plan.usd_per_million_tokens) : "-",
                    plan.joules_per_token > 0 ? fmt::format("{:.3g}", plan.joules_per_token) : "-",
                    plan.past_error.rows > 0 ? fmt::format("{:.0f} %", plan.past_error.median_percent) : "-",
                    text_of(plan.layout)});
  std::array<size_t, 9> widths{};
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text = fmt::format("{}, {}\n", plans[0].model, name_of(plans[0].job.task));
  for (const auto& row : rows) {
    for (size_t c = 0; c + 1 < row.size(); ++c)
      text += c == 0 ? fmt::format("{:<{}}  ", row[c], widths[c]) : fmt::format("{:>{}}  ", row[c], widths[c]);
    text += row.back() + "\n";
  }
  if (std::any_of(plans.begin(), plans.end(), [](const Plan& plan) { return !plan.fits; })) text += "!: does not fit\n";
  // Who is first by what.
  const auto rank = [&](const char* title, auto key, bool largest) {
    std::vector<std::pair<double, std::string>> order;
    for (const Plan& plan : plans)
      if (plan.fits && key(plan) > 0)
        order.emplace_back(largest ? -key(plan) : key(plan), fmt::format("{} x {}", plan.job.devices, plan.device));
    std::sort(order.begin(), order.end());
    std::string names;
    for (const auto& [value, name] : order) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) text += fmt::format("by {:<7} {}\n", title, names);
  };
  rank(
      "time:", [](const Plan& plan) { return plan.tokens_per_second; }, true);
  rank(
      "cost:", [](const Plan& plan) { return plan.usd_per_million_tokens; }, false);
  rank(
      "energy:", [](const Plan& plan) { return plan.joules_per_token; }, false);
  return text;
}

}  // namespace transom
