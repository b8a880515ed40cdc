// SPDX-License-Identifier: Apache-2.0
#include "serve/api/services.h"

#include <algorithm>

#include "serve/api/api_error.h"
#include "serve/models/served_model.h"
#include "serve/workers/generation_worker.h"

namespace transom::serve {

Services::Services(ServeOptions given)
    : options(std::move(given)), pool(std::make_unique<ThreadPool>(options.request_threads)) {}

Services::~Services() { pool->stop(); }

namespace {

bool has_name(const ServedModel& model, const std::string& name) {
  if (name == model.name) return true;
  if (!model.generator) return false;
  const auto& adapters = model.generator->adapters();
  return std::any_of(adapters.begin(), adapters.end(), [&](const auto& each) { return each.first == name; });
}

}  // namespace

ServedModel& Services::model(const std::string* name, bool (*usable)(const ServedModel&), const char* purpose) const {
  const ServedModel* known = nullptr;
  for (const auto& each : models) {
    if (name && !name->empty() && !has_name(*each, *name)) continue;
    known = each.get();
    if (usable(*each)) return *each;
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
