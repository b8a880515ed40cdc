// SPDX-License-Identifier: Apache-2.0
// The models of the server, as Anthropic's clients list them.
#include <ctime>

#include "apps/serve/anthropic/routes.h"
#include "apps/serve/models/model_pool.h"

namespace transom::serve {
namespace {

std::vector<Json> models_of(const Services& services) {
  std::vector<Json> list;
  for (const ModelFacts* model : services.models->facts()) {
    if (!model->writes) continue;
    const auto created = static_cast<std::time_t>(model->created);
    std::tm parts{};
    ::gmtime_r(&created, &parts);
    char time[32];
    std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &parts);
    std::vector<std::string> names = model->adapters->list();
    names.insert(names.begin(), model->name);
    for (const std::string& name : names)
      list.push_back({{"type", "model"},
                      {"id", name},
                      {"display_name", name},
                      {"created_at", time},
                      {"lifecycle", "active"},
                      {"max_input_tokens", model->max_length ? Json(*model->max_length) : Json()}});
  }
  return list;
}

}  // namespace

bool is_asked_as_anthropic(const HttpRequest& request) { return request.header("anthropic-version") != nullptr; }

void list_anthropic_models(const std::shared_ptr<Call>& call) {
  call->answer_errors_as(ErrorForm::kAnthropic);
  const std::vector<Json> list = models_of(call->services());
  call->reply({{"data", list},
               {"has_more", false},
               {"first_id", list.empty() ? Json() : list.front()["id"]},
               {"last_id", list.empty() ? Json() : list.back()["id"]}});
}

void show_anthropic_model(const std::shared_ptr<Call>& call, const std::string& name) {
  call->answer_errors_as(ErrorForm::kAnthropic);
  for (const Json& model : models_of(call->services()))
    if (model["id"] == name) return call->reply(model);
  throw ApiError(404, fmt::format("model: {}", name));
}

}  // namespace transom::serve
