// SPDX-License-Identifier: Apache-2.0
// Fields that Ollama's paths share.
#include <chrono>
#include <ctime>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/ollama/routes.h"
#include "apps/serve/structured/structured_output.h"

namespace transom::serve {
namespace {

std::string time_text(std::chrono::nanoseconds since_1970) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:09}Z", text, since_1970.count() % 1'000'000'000);
}

}  // namespace

std::string ollama_time() {
  return time_text(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()));
}

std::string ollama_time(int64_t seconds) { return time_text(std::chrono::seconds(seconds)); }

std::string ollama_model_name(RequestFields& fields, const Services& services) {
  std::string name = fields.text("model").value_or(fields.text("name").value_or(""));
  if (name.empty()) refuse_field("model", "model: missing; expected the name of a model");
  for (const ModelFacts* facts : services.models->facts())
    if (facts->has_name(name)) return name;
  const std::string latest = ":latest";
  if (name.ends_with(latest)) name.resize(name.size() - latest.size());
  return name;
}

Json ollama_content(const Json& text, const Json* images) {
  if (!images || images->is_null() || images->empty()) return text;
  if (!images->is_array()) refuse_field("images", "images: expected a list of pictures as base64");
  Json parts = Json::array();
  for (const Json& image : *images) {
    if (!image.is_string()) refuse_field("images", "images: expected a list of pictures as base64");
    parts.push_back({{"type", "image"}, {"base64", image}});
  }
  if (text.is_string() && text != "") parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

bool read_ollama_logprobs(RequestFields& fields, EngineRequest& request) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top.value_or(0) > 0 && !wanted) refuse_field("top_logprobs", "top_logprobs: needs logprobs to be true");
  if (wanted) request.logprobs = top.value_or(0);
  return wanted;
}

SamplingFields read_ollama_options(RequestFields& fields, const ServedModel& model, const ServeOptions& options) {
  SamplingFields sampling = default_sampling(model, options);
  EngineRequest& request = sampling.request;
  GenerationConfig& config = request.config;
  static const Json kNone = Json::object();
  const Json* given = fields.object("options");
  RequestFields inner(given ? *given : kNone, "options");
  if (const auto value = inner.number("temperature", 0, 100)) config.temperature = *value;
  if (config.temperature < 1e-5) config.do_sample = false, config.temperature = 1;
  if (const auto value = inner.integer("top_k", -1, INT32_MAX)) config.top_k = std::max<int64_t>(0, *value);
  if (const auto value = inner.number("top_p", 0, 1)) config.top_p = *value;
  if (config.top_p <= 0) config.do_sample = false, config.top_p = 1;
  if (const auto value = inner.number("min_p", 0, 1)) config.min_p = *value;
  if (const auto value = inner.number("typical_p", 0, 1)) config.typical_p = *value > 0 ? *value : 1;
  if (const auto value = inner.number("repeat_penalty", 1e-3, 100)) config.repetition_penalty = *value;
  if (const auto value = inner.number("presence_penalty", -2, 2)) request.presence_penalty = *value;
  if (const auto value = inner.number("frequency_penalty", -2, 2)) request.frequency_penalty = *value;
  read_seed(inner, config);
  if (const auto stops = inner.texts("stop", 16, 256))
    for (const std::string& stop : *stops)
      if (!stop.empty()) config.stop_strings.push_back(stop);
  // -1: until the model ends, -2: until the context is full; both end there.
  if (const auto value = inner.integer("num_predict", -2, INT32_MAX); value && *value > 0) sampling.max_tokens = *value;
  expect_known_fields(inner, "/api");
  if (const Json* format = fields.any("format"); format && *format != "") {
    if (*format != "json" && !format->is_object())
      refuse_field("format", "format: expected \"json\" or a JSON schema, found {}", quoted(compact(*format)));
    if (format->is_object()) {
      request.constraint = schema_constraint(model, *format, "format");
    } else {
      const Json body{{"response_format", {{"type", "json_object"}}}};
      RequestFields form(body);
      request.constraint = read_structured_output(form, model);
    }
  }
  return sampling;
}

}  // namespace transom::serve
