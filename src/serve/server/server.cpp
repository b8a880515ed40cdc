// SPDX-License-Identifier: Apache-2.0
#include "serve/server/server.h"

#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "serve/api/services.h"
#include "serve/models/served_model.h"
#include "serve/server/router.h"
#include "serve/workers/generation_worker.h"

namespace transom::serve {
namespace {

void add_model_metrics(Services& services, const ServedModel& model) {
  const Labels labels{{"engine", "0"}, {"model_name", model.name}};
  if (const GenerationWorker* worker = model.generator.get()) {
    const auto gauge = [&](const char* name, const char* help, double (*value)(const EngineStatistics&)) {
      services.metrics.gauge(name, help, labels, [worker, value] { return value(worker->statistics()); });
    };
    using Statistics = const EngineStatistics&;
    gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
          [](Statistics s) { return static_cast<double>(s.running); });
    gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
          [](Statistics s) { return static_cast<double>(s.waiting); });
    gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", [](Statistics s) {
      return s.blocks > 0 ? static_cast<double>(s.blocks_used) / static_cast<double>(s.blocks) : 0;
    });
    gauge("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.",
          [](Statistics s) { return static_cast<double>(s.preemptions); });
    gauge("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
          [](Statistics s) { return static_cast<double>(s.prefix_queries); });
    gauge("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
          [](Statistics s) { return static_cast<double>(s.prefix_hits); });
  }
  const auto queue = [&](const auto* of_model) {
    const Labels own{{"model_name", model.name}};
    services.metrics.gauge("te_queue_size", "Inputs that wait for an encoder.", own,
                           [of_model] { return static_cast<double>(of_model->statistics().waiting); });
    services.metrics.gauge("transom_batches_total", "Batches that went through an encoder.", own,
                           [of_model] { return static_cast<double>(of_model->statistics().batches); });
    services.metrics.gauge("transom_batch_rows_total", "Inputs that went through an encoder.", own,
                           [of_model] { return static_cast<double>(of_model->statistics().rows); });
  };
  if (model.embedder) queue(model.embedder->queue.get());
  if (model.runner) queue(model.runner->queue.get());
}

}  // namespace

class Server::Implementation {
 public:
  explicit Implementation(ServeOptions options)
      : services(std::move(options)), router(services), http(services.options.http, router) {
    add_process_metrics(services.metrics);
  }

  ~Implementation() { stop(); }

  // What answers goes before what it answers through.
  void stop() {
    services.readiness = Readiness::kDraining;
    services.pool->stop();
    services.metrics.drop_gauges();
    services.models.clear();
    // What the workers said last is on its way.
    const auto until = Clock::now() + std::chrono::milliseconds(500);
    while (http.statistics().active > 0 && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    http.stop();
  }

  Services services;
  Router router;
  HttpServer http;
};

Server::Server(ServeOptions options) {
  if (options.models.empty()) fail(ErrorKind::kUsage, "there is no model to serve");
  for (size_t i = 0; i < options.models.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (options.models[i].name == options.models[k].name)
        fail(ErrorKind::kUsage, "two models have the name {}: give other ones with --served_model_name",
             quoted(options.models[i].name));
  implementation_ = std::make_unique<Implementation>(std::move(options));
}

Server::~Server() = default;

void Server::start() { implementation_->http.start(); }

void Server::load(const std::function<void(size_t, const std::string&)>& loading) {
  Services& services = implementation_->services;
  std::vector<std::unique_ptr<ServedModel>> models;
  try {
    for (const ModelSource& source : services.options.models) {
      if (loading) loading(models.size(), source.name);
      models.push_back(load_served_model(source, services.options));
      add_model_metrics(services, *models.back());
    }
  } catch (...) {
    services.metrics.drop_gauges();
    throw;
  }
  services.models = std::move(models);
  services.readiness = Readiness::kReady;
}

uint16_t Server::port() const { return implementation_->http.port(); }

void Server::drain() {
  implementation_->services.readiness = Readiness::kDraining;
  implementation_->http.drain();
}

bool Server::wait_until_idle(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (implementation_->services.in_flight > 0 || implementation_->http.statistics().active > 0) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

void Server::stop() { implementation_->stop(); }

ServerStatistics Server::statistics() const {
  ServerStatistics result;
  const HttpStatistics http = implementation_->http.statistics();
  result.connections = http.connections;
  result.active = http.active;
  if (implementation_->services.readiness == Readiness::kLoading) return result;
  for (const auto& model : implementation_->services.models) {
    if (model->generator) {
      const EngineStatistics engine = model->generator->statistics();
      result.waiting += engine.waiting, result.running += engine.running;
      result.prompt_tokens += engine.prompt_tokens, result.generated_tokens += engine.generated_tokens;
    }
    const auto add = [&](const BatchStatistics& batches) {
      result.waiting += batches.waiting, result.requests += batches.rows, result.prompt_tokens += batches.tokens;
    };
    if (model->embedder) add(model->embedder->queue->statistics());
    if (model->runner) add(model->runner->queue->statistics());
  }
  return result;
}

}  // namespace transom::serve
