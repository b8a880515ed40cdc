// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/serve/load_report.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

const char* name_of(LoadApi api) {
  return api == LoadApi::kChat ? "openai-chat" : api == LoadApi::kEmbeddings ? "openai-embeddings" : "openai";
}

// "99" of 99.0, "99.9" of 99.9.
std::string percent_name(double percent) { return fmt::format("{:g}", percent); }

void add_figures(Json& json, const std::string& name, const LatencyFigures& figures) {
  json["mean_" + name + "_ms"] = figures.mean;
  json["median_" + name + "_ms"] = figures.median;
  json["std_" + name + "_ms"] = figures.deviation;
  for (const auto& [percent, value] : figures.percentiles)
    json["p" + percent_name(percent) + "_" + name + "_ms"] = value;
}

template <typename Field>
Json each(const LoadResult& result, Field field) {
  Json list = Json::array();
  for (const LoadOutcome& outcome : result.outcomes) list.push_back(field(outcome));
  return list;
}

std::string row(const std::string& name, const LatencyFigures& figures) {
  std::string text =
      fmt::format("{:<8} {:>12.2f} {:>12.2f} {:>12.2f}", name, figures.mean, figures.median, figures.deviation);
  for (const auto& [percent, value] : figures.percentiles) text += fmt::format(" {:>12.2f}", value);
  return text + "\n";
}

}  // namespace

std::string load_table(const LoadTestReport& report) {
  const LoadMetrics& m = report.metrics;
  const bool writes = report.options.api != LoadApi::kEmbeddings;
  std::string text = fmt::format("{}, {}\n", report.url, report.options.model);
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<36} {}\n", name, value);
  };
  line("requests answered", std::to_string(m.completed));
  line("requests failed", std::to_string(m.failed));
  line("duration, s", fmt::format("{:.2f}", m.duration));
  line("requests/s", fmt::format("{:.2f}", m.request_throughput));
  if (!report.level.empty()) line("requests/s within the service level", fmt::format("{:.2f}", m.request_goodput));
  line("input tokens", std::to_string(m.input_tokens));
  if (writes) {
    line("output tokens", std::to_string(m.output_tokens));
    line("output tokens/s", fmt::format("{:.2f}", m.output_throughput));
    line("output tokens/s, best second", fmt::format("{:.0f}", m.most_output_tokens_per_second));
  }
  line("all tokens/s", fmt::format("{:.2f}", m.total_token_throughput));
  line("requests at once, at most", std::to_string(m.most_concurrent));
  text += fmt::format("{:<8} {:>12} {:>12} {:>12}", "MS", "MEAN", "MEDIAN", "STDEV");
  for (const auto& [percent, value] : m.e2el.percentiles) text += fmt::format(" {:>12}", "P" + percent_name(percent));
  text += "\n";
  if (writes) text += row("TTFT", m.ttft) + row("TPOT", m.tpot) + row("ITL", m.itl);
  text += row("E2EL", m.e2el);
  if (report.options.max_concurrency > 0) text += row("QUEUED", m.queued);
  return text;
}

Json load_json(const LoadTestReport& report) {
  const LoadMetrics& m = report.metrics;
  const LoadTestOptions& o = report.options;
  const bool writes = o.api != LoadApi::kEmbeddings;
  const auto number = [](double value) { return std::isinf(value) ? Json("inf") : Json(value); };
  Json json{{"date", report.date},
            {"endpoint_type", name_of(o.api)},
            {"backend", name_of(o.api)},
            {"label", nullptr},
            {"base_url", report.url},
            {"endpoint", o.endpoint},
            {"model_id", o.model},
            {"num_prompts", report.num_prompts},
            {"request_rate", number(o.request_rate)},
            {"burstiness", number(o.burstiness)},
            {"max_concurrency", o.max_concurrency > 0 ? Json(o.max_concurrency) : Json()},
            {"seed", o.seed},
            {"duration", m.duration},
            {"completed", m.completed},
            {"failed", m.failed},
            {"total_input_tokens", m.input_tokens}};
  if (writes) json["total_output_tokens"] = m.output_tokens;
  json["request_throughput"] = m.request_throughput;
  json["request_goodput"] = report.level.empty() ? Json() : Json(m.request_goodput);
  if (!report.level.empty())
    for (const auto& [name, limit] : report.level) json["goodput"][name] = limit;
  if (writes) json["output_throughput"] = m.output_throughput;
  json["total_token_throughput"] = m.total_token_throughput;
  if (writes) json["max_output_tokens_per_s"] = m.most_output_tokens_per_second;
  json["max_concurrent_requests"] = m.most_concurrent;
  if (writes) {
    add_figures(json, "ttft", m.ttft);
    add_figures(json, "tpot", m.tpot);
    add_figures(json, "itl", m.itl);
  }
  add_figures(json, "e2el", m.e2el);
  if (o.max_concurrency > 0) add_figures(json, "queue_time", m.queued);
  if (!report.detailed) return json;
  const LoadResult& result = report.result;
  json["input_lens"] = each(result, [](const LoadOutcome& outcome) { return outcome.prompt_tokens; });
  json["output_lens"] = each(result, [](const LoadOutcome& outcome) { return outcome.output_tokens; });
  json["ttfts"] = each(result, [](const LoadOutcome& outcome) { return outcome.first_token; });
  json["itls"] = each(result, [](const LoadOutcome& outcome) { return Json(outcome.gaps); });
  json["latencies"] = each(result, [](const LoadOutcome& outcome) { return outcome.latency; });
  json["start_times"] = each(result, [](const LoadOutcome& outcome) { return outcome.start; });
  json["queue_times"] = each(result, [](const LoadOutcome& outcome) { return outcome.queued; });
  json["generated_texts"] = each(result, [](const LoadOutcome& outcome) { return outcome.text; });
  json["errors"] = each(result, [](const LoadOutcome& outcome) { return outcome.error; });
  return json;
}

}  // namespace transom
