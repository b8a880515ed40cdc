// SPDX-License-Identifier: Apache-2.0
#include "serve/api/services.h"

#include "serve/api/api_error.h"
#include "serve/models/model_pool.h"
#include "serve/models/served_model.h"

namespace transom::serve {

Services::Services(ServeOptions given)
    : options(std::move(given)),
      models(std::make_unique<ModelPool>(options)),
      pool(std::make_unique<ThreadPool>(options.request_threads)) {}

Services::~Services() { pool->stop(); }

std::shared_ptr<ServedModel> Services::model(const std::string* name, bool (*usable)(const ModelFacts&),
                                             const char* purpose) const {
  const ModelFacts* known = nullptr;
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
