// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/operations/routes.h"

#include "apps/serve/models/model_pool.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/workers/generation_worker.h"

namespace transom::serve {
namespace {

// Empty when all is well; it takes no lock that an engine holds while it computes.
void health(const std::shared_ptr<Call>& call) {
  const Readiness readiness = call->services().readiness;
  if (readiness == Readiness::kLoading) throw ApiError(503, "the server is loading its models");
  if (readiness == Readiness::kDraining) throw ApiError(503, "the server is ending");
  call->services().models->for_each([](const ServedModel& model) {
    if (!model.generator) return;
    if (const std::string failure = model.generator->statistics().failure; !failure.empty())
      throw ApiError(503, fmt::format("the model {}: {}", quoted(model.name), failure));
    if (model.generator->stalled(std::chrono::seconds(120)))
      throw ApiError(503, fmt::format("the model {} has work and made no step for 120 s", quoted(model.name)));
  });
  call->respond({.status = 200, .body = "", .content_type = "text/plain"});
}

void version(const std::shared_ptr<Call>& call) { call->reply({{"version", call->services().options.version}}); }

void metrics(const std::shared_ptr<Call>& call) {
  call->respond({.status = 200,
                 .body = call->services().metrics.text(),
                 .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

}  // namespace

std::vector<Route> operations_routes() {
  return {{"GET", "/health", health, ErrorForm::kOpenAi, Route::kOpen | Route::kAtOnce},
          {"GET", "/ping", health, ErrorForm::kOpenAi, Route::kOpen | Route::kAtOnce},
          {"GET", "/version", version, ErrorForm::kOpenAi, Route::kAtOnce},
          {"GET", "/metrics", metrics, ErrorForm::kOpenAi, Route::kAtOnce}};
}

}  // namespace transom::serve
