// SPDX-License-Identifier: Apache-2.0
// GET /v1/models and /v1/models/{id}.
#include "apps/serve/anthropic/routes.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/openai/routes.h"
#include "apps/serve/page/task_form.h"

namespace transom::serve {
namespace {

std::vector<Json> model_list(const Services& services) {
  std::vector<Json> list;
  for (const ModelFacts* model : services.models->facts()) {
    Json item{{"id", model->name},
              {"object", "model"},
              {"created", model->created},
              {"owned_by", "transom"},
              {"root", model->name},
              {"parent", nullptr},
              {"max_model_len", model->max_length ? Json(*model->max_length) : Json()},
              {"task", model->task},
              {"tasks", model->tasks},
              {"form", form_of_model(*model)}};
    if (!model->generation_config.empty())  // no field of OpenAI: who wants what generate() writes has to know it
      item["generation_config"] = parse_json(model->generation_config, model->name);
    list.push_back(item);
    for (const std::string& name : model->adapters->list()) {
      item["id"] = name;
      item["root"] = name;
      item["parent"] = model->name;
      list.push_back(item);
    }
  }
  return list;
}

}  // namespace

void list_models(const std::shared_ptr<Call>& call) {
  if (is_asked_as_anthropic(call->request())) return list_anthropic_models(call);
  call->reply({{"object", "list"}, {"data", model_list(call->services())}});
}

void show_model(const std::shared_ptr<Call>& call) {
  const std::string name = call->request().path.substr(std::string("/v1/models/").size());
  if (is_asked_as_anthropic(call->request())) return show_anthropic_model(call, name);
  for (const Json& model : model_list(call->services()))
    if (model["id"] == name) return call->reply(model);
  throw ApiError(404,
                 fmt::format("the model {} does not exist; GET /v1/models lists those that are served", quoted(name)),
                 "model", "model_not_found");
}

}  // namespace transom::serve
