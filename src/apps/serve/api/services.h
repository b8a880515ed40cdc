// SPDX-License-Identifier: Apache-2.0
// What the handlers of all interfaces share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apps/serve/api/options.h"
#include "apps/serve/metrics/metrics.h"
#include "apps/serve/workers/thread_pool.h"

namespace transom::serve {

class Batches;
struct ModelFacts;
struct ServedModel;
class ModelPool;

enum class Readiness { kLoading, kReady, kDraining };

struct Services {
  explicit Services(ServeOptions given);
  ~Services();

  // The model that a request names, by its name or by that of one of its adapters; without a name the first that
  // `usable` takes. Where one model is served, names that stand for the only one ("tgi", "dummy" ...) count as none.
  // Throws 404 for a name that is not served, and 400 for a model that is not usable: `purpose` says what for
  // ("embeddings"). It stays in memory for as long as the result is held; 503 while it is loaded.
  std::shared_ptr<ServedModel> model(const std::string* name, bool (*usable)(const ModelFacts&),
                                     const char* purpose) const;

  ServeOptions options;
  Metrics metrics;
  std::atomic<Readiness> readiness{Readiness::kLoading};
  std::atomic<int64_t> in_flight{0};
  std::unique_ptr<ModelPool> models;  // loaded before readiness is kReady
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Batches> batches;  // null where the server keeps none
};

}  // namespace transom::serve
