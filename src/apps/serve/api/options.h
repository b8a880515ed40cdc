// SPDX-License-Identifier: Apache-2.0
// How a server is set up; `transom serve` reads it from its flags.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/http/server.h"
#include "transom/engine.h"
#include "transom/hub.h"
#include "transom/model.h"

namespace transom {
class Evaluator;
}

namespace transom::serve {

struct ModelSource {
  std::string name;  // that clients use
  std::string path;  // a directory, a file or an id of the Hub
};

struct ServeOptions {
  HttpOptions http;
  std::vector<ModelSource> models;
  std::string task;  // of all models; empty: what the architecture of each is for
  std::string version;
  std::vector<std::string> api_keys;         // empty: everyone may ask
  std::string cors_allow_origin;             // empty: no CORS headers
  std::string chat_template;                 // Jinja text in place of the checkpoints'
  std::string generation_config = "auto";    // "none": the checkpoint's generation_config.json gives no defaults
  bool tells_thoughts = true;                // what a model thinks is told from its answer
  bool trust_request_chat_template = false;  // a request may bring a template of its own
  bool log_prompts = false;
  std::function<void(std::string_view)> log_request;  // one JSON object a request; none: no log
  // Each step of a model that writes: its name, tokens read and written. Set by Services.
  std::function<void(const std::string&, int64_t)> on_step;
  size_t request_threads = 2;                   // that parse and tokenise
  int64_t max_concurrent_requests = 1024;       // more: 429
  bool by_priority = false;                     // requests may say what goes before what; else 400
  int64_t max_waiting = 256;                    // generation requests of a model that have not begun; more: 429
  static constexpr int64_t kMostPrompts = 256;  // of one generation request, which are taken or refused together
  int64_t max_batch_tokens = 16384;             // of a batch of an encoder
  int64_t max_batch_requests = 64;              // rows of a batch of an encoder
  int64_t max_client_batch_size = 2048;         // inputs of one request
  int64_t max_model_length = 0;                 // tokens; 0: what the model takes
  double step_milliseconds = 30;                // EngineOptions::step_seconds
  int64_t max_batched_tokens = 512, max_sequences = 256, cache_bytes = 0;  // of the generation engine
  std::string prefix_cache_directory;  // EngineOptions: where blocks are kept; "": nowhere
  int64_t prefix_cache_disk_bytes = int64_t{4} << 30;
  std::string kv_cache_dtype = "auto";    // EngineOptions::cache_dtype
  std::string assistant_model;            // whose drafts the models verify; "": none
  int64_t num_assistant_tokens = 5;       // of a draft
  DraftOptions drafts{.measured = true};  // EngineOptions::drafts
  std::string draft_head;  // of kHead: a directory with a head of EAGLE-3; "": what the model's checkpoint holds
  uint64_t body_limit = 8 << 20, media_body_limit = 25 << 20;  // bytes
  int64_t most_seconds_of_sound = 7200;
  int64_t most_images = 16, most_image_pixels = 50'000'000;  // of a request that writes text; pixels of one picture
  int64_t memory_budget = 0;                                 // bytes of all models together; 0: all stay in memory
  std::chrono::milliseconds request_timeout{600'000};
  std::chrono::milliseconds ping_interval{15'000};  // of comments in a stream that has nothing to say
  std::vector<std::pair<std::string, std::string>> adapters;
  // Whose adapters may be loaded over HTTP, and all be unloaded; "": none.
  std::string adapter_folder;
  static constexpr size_t kMostAdapters = 128;  // of a model
  std::string batch_folder;                     // of files and batches; "": there are none
  LoadOptions load;
  HubOptions hub;
  // Spreads a model that generates text over processes, of which this one leads; none: it is all here.
  std::function<std::shared_ptr<Evaluator>(Model&)> spread;
};

}  // namespace transom::serve
