// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/services.h"

#include "apps/serve/api/api_error.h"
#include "apps/serve/batches/batches.h"
#include "apps/serve/generation/generation_metrics.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/models/served_model.h"

namespace transom::serve {

Services::Services(ServeOptions given)
    : options(std::move(given)),
      models(std::make_unique<ModelPool>(options)),
      pool(std::make_unique<ThreadPool>(options.request_threads)) {
  options.on_step = [this](const std::string& model, int64_t tokens) {
    iteration_tokens(metrics, model).observe(static_cast<double>(tokens));
  };
}

Services::~Services() { pool->stop(); }

namespace {

// What clients send that were made for servers of one model: huggingface_hub and TGI's, TEI's, SGLang's.
bool is_placeholder(const std::string& name) {
  return name == "tgi" || name == "dummy" || name == "default" || name == "text-embeddings-inference";
}

}  // namespace

std::shared_ptr<ServedModel> Services::model(const std::string* name, bool (*usable)(const ModelFacts&),
                                             const char* purpose) const {
  const ModelFacts* known = nullptr;
  if (const std::vector<const ModelFacts*> all = models->facts();
      name && is_placeholder(*name) && all.size() == 1 && !all[0]->has_name(*name))
    name = nullptr;
  for (const ModelFacts* each : models->facts()) {
    if (name && !name->empty() && !each->has_name(*name)) continue;
    known = each;
    if (usable(*each)) return models->lease(*each);
  }
  if (name && !name->empty() && !known)
    throw ApiError(
        404, fmt::format("the model {} does not exist; GET /v1/models lists those that are served", quoted(*name)),
        "model", "model_not_found");
  if (known && name && !name->empty())
    throw ApiError(400, fmt::format("the model {} is for {} and has no {}", quoted(*name), known->task, purpose),
                   "model");
  throw ApiError(400, fmt::format("no model of this server has {}", purpose), "model");
}

}  // namespace transom::serve
