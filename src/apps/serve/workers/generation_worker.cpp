// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/workers/generation_worker.h"

#include <algorithm>

#include "apps/serve/api/api_error.h"
#include "apps/serve/models/served_model.h"
#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/hub/resolve.h"
#include "runtime/tensor/evaluator.h"
#include "work/generation/constraint/constraint.h"
#include "work/generation/generation_fields.h"
#include "work/pipelines/generation/assistant_model.h"

namespace transom::serve {

GenerationWorker::GenerationWorker(GenerationModel model, std::unique_ptr<Model> assistant,
                                   std::unique_ptr<DraftHead> head, const ServeOptions& options,
                                   std::function<void(int64_t tokens)> on_step)
    : model_(std::move(model)),
      assistant_(std::move(assistant)),
      head_(std::move(head)),
      max_waiting_(options.max_waiting),
      on_step_(std::move(on_step)) {
  EngineOptions engine{.tokenizer = &model_.tokenizer};
  engine.cache_bytes = options.cache_bytes;
  engine.cache_dtype = options.kv_cache_dtype;
  engine.prefix_cache_directory = options.prefix_cache_directory;
  engine.prefix_cache_disk_bytes = options.prefix_cache_disk_bytes;
  engine.max_batched_tokens = options.max_batched_tokens;
  engine.step_seconds = options.step_milliseconds / 1e3;
  engine.max_sequences = options.max_sequences;
  // As many requests as there are threads for them may be adding their prompts.
  engine.max_waiting = options.max_waiting +
                       ServeOptions::kMostPrompts * static_cast<int64_t>(std::max<size_t>(options.request_threads, 1));
  engine.max_model_length = options.max_model_length;
  engine.adapters = options.adapters;
  engine.assistant = assistant_.get();
  engine.num_assistant_tokens = options.num_assistant_tokens;
  engine.drafts = options.drafts;
  engine.drafts.head = head_.get();
  std::optional<EvaluatorScope> together;
  if (options.spread) {
    evaluator_ = options.spread(*model_.model);
    together.emplace(evaluator_.get());
  }
  engine_ = std::make_unique<Engine>(*model_.model, engine);
  computing_ = std::thread([this] { compute(); });
  handing_out_ = std::thread([this] { hand_out(); });
}

GenerationWorker::~GenerationWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  news_.notify_all();
  computing_.join();
  handing_out_.join();
  fail_all(std::make_exception_ptr(ApiError(503, "the server is ending")));
}

uint64_t GenerationWorker::submit(EngineRequest request, std::shared_ptr<GenerationListener> listener, bool is_first) {
  const int64_t sequences = std::max<int64_t>(1, request.config.num_return_sequences);
  const EngineStatistics now = engine_->statistics();
  if (!now.failure.empty()) throw ApiError(503, now.failure);
  const int64_t waiting = now.waiting;
  if (is_first && waiting >= max_waiting_)
    throw ApiError(
        429, fmt::format("{} requests wait for this model, at most {} may; try again later", waiting, max_waiting_));
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    try {
      number = engine_->add(std::move(request));
    } catch (const Error& error) {
      // Others were faster since the queue was looked at.
      if (error.kind() == ErrorKind::kOutOfMemory) throw ApiError(429, error.what());
      throw;
    }
    listeners_[number] = {std::move(listener), sequences};
    submitted_ = true;
  }
  work_.notify_one();
  return number;
}

void GenerationWorker::cancel(uint64_t request) {
  engine_->cancel(request);
  {
    const std::lock_guard lock(mutex_);
    submitted_ = true;
  }
  work_.notify_one();
}

std::shared_ptr<const constraint::Vocabulary> GenerationWorker::vocabulary() const {
  std::call_once(vocabulary_made_, [this] {
    std::vector<int64_t> ends = model_.config.eos_token_id;
    if (const auto end = model_.tokenizer.eos_token_id(); end && ends.empty()) ends.push_back(*end);
    vocabulary_ = std::make_shared<constraint::Vocabulary>(model_.tokenizer, std::move(ends));
  });
  return vocabulary_;
}

bool GenerationWorker::stalled(std::chrono::seconds time) const {
  const EngineStatistics now = engine_->statistics();
  const std::lock_guard lock(mutex_);
  return (now.running > 0 || now.waiting > 0) && Clock::now() - last_step_ > time;
}

void GenerationWorker::compute() {
  const NoGradient inference;
  int64_t before = 0;  // tokens read and written
  while (true) {
    bool worked = false;
    std::exception_ptr error;
    try {
      worked = engine_->step();
    } catch (...) {
      error = std::current_exception();
    }
    if (worked && on_step_) {
      const EngineStatistics now = engine_->statistics();
      const int64_t after = now.prompt_tokens + now.generated_tokens;
      if (after > before) on_step_(after - before);
      before = after;
    }
    std::vector<EngineEvent> events = engine_->take();
    if (error) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& failure) {
        log(LogLevel::kWarning, fmt::format("generation failed: {}", failure.what()));
      }
      fail_all(error);
    }
    std::unique_lock lock(mutex_);
    last_step_ = Clock::now();
    if (!events.empty()) {
      for (EngineEvent& event : events) events_.push_back(std::move(event));
      news_.notify_one();
    }
    if (stopping_) return;
    if (worked && !error) continue;
    work_.wait_for(lock, std::chrono::milliseconds(error ? 100 : 1000), [this] { return stopping_ || submitted_; });
    submitted_ = false;
    last_step_ = Clock::now();
    if (stopping_) return;
  }
}

void GenerationWorker::hand_out() {
  Clock::time_point last_tick = Clock::now();
  while (true) {
    std::vector<std::pair<std::shared_ptr<GenerationListener>, EngineEvent>> news;
    std::vector<std::shared_ptr<GenerationListener>> all;
    {
      std::unique_lock lock(mutex_);
      news_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_ || !events_.empty(); });
      if (stopping_) return;
      for (EngineEvent& event : events_) {
        const auto found = listeners_.find(event.request);
        if (found == listeners_.end()) continue;
        const auto listener = found->second.first;
        if (event.finish && --found->second.second == 0) listeners_.erase(found);
        news.emplace_back(listener, std::move(event));
      }
      events_.clear();
      if (Clock::now() - last_tick >= std::chrono::seconds(1)) {
        last_tick = Clock::now();
        for (const auto& [number, each] : listeners_) all.push_back(each.first);
      }
    }
    for (auto& [listener, event] : news) listener->on_event(std::move(event));
    for (const auto& listener : all) listener->on_tick(last_tick);
  }
}

void GenerationWorker::fail_all(const std::exception_ptr& error) {
  std::map<uint64_t, std::pair<std::shared_ptr<GenerationListener>, int64_t>> listeners;
  {
    const std::lock_guard lock(mutex_);
    listeners.swap(listeners_);
  }
  for (const auto& [number, each] : listeners) {
    engine_->cancel(number);
    each.first->on_failure(error);
  }
}

namespace {

bool recommends_sampling(const GenerationModel& model) {
  constexpr const char* kFields[] = {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty"};
  return std::any_of(std::begin(kFields), std::end(kFields),
                     [&](const char* name) { return model.given.contains(name); });
}

std::unique_ptr<DraftHead> load_head(const std::string& directory, const Model& model, const LoadOptions& load,
                                     const ServeOptions& options) {
  const auto* writer = dynamic_cast<const GenerativeModel*>(&model);
  if (!writer) fail(ErrorKind::kUnsupported, "{} does not write, and has no head for drafts", model.architecture());
  if (options.draft_head.empty()) return load_mtp_head(directory, *writer, load);
  return load_eagle3_head(resolve_model(options.draft_head, options.hub).string(), *writer, load);
}

}  // namespace

void load_generator(ServedModel& served, const std::string& directory, const ServeOptions& options) {
  LoadOptions load = options.load;
  load.task = "text-generation";
  // Processes that share a model cut its weights, which are read for that.
  load.keep_stored_types = !options.spread;
  GenerationModel model = GenerationModel::load(directory, load);
  const bool recommends = recommends_sampling(model);
  // A GGUF file that recommends no sampling is sampled as its users know it from llama.cpp.
  if (!recommends && is_container(directory))
    model.specialise({{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}});
  Json set = Json::object();
  const Json file = read_json(generation_file(directory));
  for (const auto& [name, value] : file.items())
    if (model.given.contains(name)) set[name] = value;
  served.generation_config = dump_json(set);
  served.images = ImageTextProcessor::of(directory_of_model(directory), model.model->config(), model.tokenizer);
  std::unique_ptr<Model> assistant;
  if (!options.assistant_model.empty())
    assistant = load_assistant(resolve_model(options.assistant_model, options.hub).string(), load, model.tokenizer);
  std::unique_ptr<DraftHead> head;
  if (options.drafts.method == DraftOptions::Method::kHead) head = load_head(directory, *model.model, load, options);
  std::function<void(int64_t)> on_step;
  if (options.on_step) on_step = [told = options.on_step, name = served.name](int64_t tokens) { told(name, tokens); };
  served.generator = std::make_unique<GenerationWorker>(std::move(model), std::move(assistant), std::move(head),
                                                        options, std::move(on_step));
  served.tokenizer = served.generator->tokenizer();
  served.max_length = served.generator->max_model_length();
  if (!served.tokenizer->has_chat_template() && options.chat_template.empty())
    log(LogLevel::kWarning, fmt::format("{}: no chat template; chats are written as ChatML", served.name));
  if (options.generation_config != "none" && recommends)
    log(LogLevel::kInfo, fmt::format("{}: sampling defaults come from {} (--generation_config none turns it off)",
                                     served.name, is_container(directory) ? "the file" : "generation_config.json"));
}

}  // namespace transom::serve
