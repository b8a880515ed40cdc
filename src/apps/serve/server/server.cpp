// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/server/server.h"

#include <algorithm>
#include <thread>

#include "apps/serve/api/services.h"
#include "apps/serve/batches/batches.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/server/router.h"
#include "apps/serve/workers/generation_worker.h"
#include "base/error.h"
#include "base/terminal/log.h"

namespace transom::serve {
namespace {

// Tokens of a draft, of which each place is a series.
size_t most_drafted(const ServeOptions& options) {
  constexpr int64_t kMostSeries = 64;
  const bool drafts = options.drafts.method != DraftOptions::Method::kNone;
  const int64_t most = !options.assistant_model.empty() ? options.num_assistant_tokens : options.drafts.tokens;
  return drafts || !options.assistant_model.empty() ? static_cast<size_t>(std::clamp<int64_t>(most, 0, kMostSeries))
                                                    : 0;
}

// What is asked of a model that is not in memory is 0.
void add_model_metrics(Services& services, const ModelFacts& facts) {
  const auto gauge = [&](const char* name, const char* help, const Labels& labels, auto value) {
    services.metrics.gauge(name, help, labels, [&pool = *services.models, &facts, value] {
      double result = 0;
      pool.look_at(facts, [&](const ServedModel& model) { result = value(model); });
      return result;
    });
  };
  const auto of_engine = [&](const char* name, const char* help, double (*value)(const EngineStatistics&)) {
    gauge(name, help, {{"engine", "0"}, {"model_name", facts.name}},
          [value](const ServedModel& model) { return value(model.generator->statistics()); });
  };
  const auto of_queue = [&](const char* name, const char* help, double (*value)(const BatchStatistics&)) {
    gauge(name, help, {{"model_name", facts.name}}, [value](const ServedModel& model) {
      return value(model.embedder ? model.embedder->queue->statistics() : model.runner->queue->statistics());
    });
  };
  using Engine = const EngineStatistics&;
  using Queue = const BatchStatistics&;
  if (facts.writes) {
    of_engine("vllm:num_requests_running", "Number of requests in model execution batches.",
              [](Engine s) { return static_cast<double>(s.running); });
    of_engine("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
              [](Engine s) { return static_cast<double>(s.waiting); });
    // Nothing holds requests back but room.
    for (const char* reason : {"capacity", "deferred"})
      gauge("vllm:num_requests_waiting_by_reason", "Number of requests waiting by reason.",
            {{"engine", "0"}, {"model_name", facts.name}, {"reason", reason}},
            [room = std::string_view(reason) == "capacity"](const ServedModel& model) {
              return room ? static_cast<double>(model.generator->statistics().waiting) : 0.0;
            });
    of_engine("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", [](Engine s) {
      return s.blocks > 0 ? static_cast<double>(s.blocks_used) / static_cast<double>(s.blocks) : 0;
    });
    of_engine("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.",
              [](Engine s) { return static_cast<double>(s.preemptions); });
    of_engine("vllm:spec_decode_num_drafts_total", "Number of spec decoding drafts.",
              [](Engine s) { return static_cast<double>(s.drafts); });
    of_engine("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.",
              [](Engine s) { return static_cast<double>(s.draft_tokens); });
    of_engine("vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.",
              [](Engine s) { return static_cast<double>(s.accepted_tokens); });
    for (size_t place = 0; place < most_drafted(services.options); ++place)
      gauge("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens per draft position.",
            {{"engine", "0"}, {"model_name", facts.name}, {"position", std::to_string(place)}},
            [place](const ServedModel& model) {
              const EngineStatistics s = model.generator->statistics();
              return place < s.accepted_at.size() ? static_cast<double>(s.accepted_at[place]) : 0.0;
            });
    of_engine("transom_steps_without_drafts_total", "Steps of texts where drafts were not worth their time.",
              [](Engine s) { return static_cast<double>(s.steps_without_drafts); });
    of_engine("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
              [](Engine s) { return static_cast<double>(s.prefix_queries); });
    of_engine("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
              [](Engine s) { return static_cast<double>(s.prefix_hits); });
    of_engine("transom_prefix_cache_disk_hits_total", "Of the hits, tokens that were read from --prefix_cache_dir.",
              [](Engine s) { return static_cast<double>(s.prefix_disk_hits); });
  } else {
    of_queue("te_queue_size", "Inputs that wait for an encoder.",
             [](Queue s) { return static_cast<double>(s.waiting); });
    of_queue("transom_batches_total", "Batches that went through an encoder.",
             [](Queue s) { return static_cast<double>(s.batches); });
    of_queue("transom_batch_rows_total", "Inputs that went through an encoder.",
             [](Queue s) { return static_cast<double>(s.rows); });
  }
  gauge("transom_model_in_memory", "1 while the model is in memory.", {{"model_name", facts.name}},
        [](const ServedModel&) { return 1.0; });
}

void add_pool_metrics(Services& services) {
  services.metrics.gauge("transom_models_bytes", "Bytes that the models in memory are counted with.", {},
                         [&pool = *services.models] { return static_cast<double>(pool.bytes()); });
  services.metrics.gauge("transom_model_reloads_total", "Models that were loaded again on demand.", {},
                         [&pool = *services.models] { return static_cast<double>(pool.reloads()); });
}

}  // namespace

class Server::Implementation {
 public:
  explicit Implementation(ServeOptions options)
      : services(std::move(options)), router(services), http(services.options.http, router) {
    add_process_metrics(services.metrics);
    if (!services.options.batch_folder.empty())
      services.batches = std::make_unique<Batches>(services.options.batch_folder, router);
  }

  ~Implementation() { stop(); }

  // What answers goes before what it answers through.
  void stop() {
    services.readiness = Readiness::kDraining;
    if (services.batches) services.batches->stop();
    services.pool->stop();
    services.metrics.drop_gauges();
    services.models->clear();
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
  services.models->load(loading);
  for (const ModelFacts* facts : services.models->facts()) add_model_metrics(services, *facts);
  add_pool_metrics(services);
  services.readiness = Readiness::kReady;
  if (services.batches) services.batches->start();
}

void Server::handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) {
  implementation_->router.handle(std::move(request), std::move(responder));
}

uint16_t Server::port() const { return implementation_->http.port(); }

void Server::drain() {
  implementation_->services.readiness = Readiness::kDraining;
  if (implementation_->services.batches) implementation_->services.batches->drain();
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
  implementation_->services.models->for_each([&](const ServedModel& model) {
    if (model.generator) {
      const EngineStatistics engine = model.generator->statistics();
      result.waiting += engine.waiting, result.running += engine.running;
      result.prompt_tokens += engine.prompt_tokens, result.generated_tokens += engine.generated_tokens;
    }
    const auto add = [&](const BatchStatistics& batches) {
      result.waiting += batches.waiting, result.requests += batches.rows, result.prompt_tokens += batches.tokens;
    };
    if (model.embedder) add(model.embedder->queue->statistics());
    if (model.runner) add(model.runner->queue->statistics());
  });
  return result;
}

}  // namespace transom::serve
