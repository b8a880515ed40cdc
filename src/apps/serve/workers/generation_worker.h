// SPDX-License-Identifier: Apache-2.0
// The generation engine of a model on a thread of its own, and a second thread that hands out what it has written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/api/options.h"
#include "apps/serve/http/message.h"
#include "models/drafts/draft_head.h"
#include "transom/engine.h"
#include "work/pipelines/generation/generation_model.h"

namespace transom::constraint {
struct Vocabulary;
}

namespace transom::serve {

struct ServedModel;

// Receives the news of one request of the engine, in order, on the thread that hands out; a failure may come on another
// one meanwhile.
class GenerationListener {
 public:
  virtual ~GenerationListener() = default;
  virtual void on_event(EngineEvent event) = 0;
  // The engine itself failed; no events follow.
  virtual void on_failure(const std::exception_ptr& error) = 0;
  // About once a second.
  virtual void on_tick(Clock::time_point /*now*/) {}
};

class GenerationWorker {
 public:
  // `assistant` or `head` drafts; null: none. `on_step` is told how many tokens a step has read and written.
  GenerationWorker(GenerationModel model, std::unique_ptr<Model> assistant, std::unique_ptr<DraftHead> head,
                   const ServeOptions& options, std::function<void(int64_t tokens)> on_step = nullptr);
  // Ends what runs with a failure.
  ~GenerationWorker();

  // Any thread. Throws what Engine::add throws, and 429 if too many wait. Of the prompts of one request only the first
  // is turned away: a request with more of them than may wait would never be answered.
  uint64_t submit(EngineRequest request, std::shared_ptr<GenerationListener> listener, bool is_first = true);
  void cancel(uint64_t request);
  EngineStatistics statistics() const { return engine_->statistics(); }
  int64_t max_model_length() const { return engine_->max_model_length(); }
  // Whether work waits and no step has ended for so long.
  bool stalled(std::chrono::seconds time) const;

  const Tokenizer& tokenizer() const { return model_.tokenizer; }
  const GenerationModel& model() const { return model_; }
  // For constraints; made when it is first asked for.
  std::shared_ptr<const constraint::Vocabulary> vocabulary() const;
  // As Engine's.
  void load_adapter(const std::string& name, const std::string& directory, bool replaces) {
    engine_->load_adapter(name, directory, replaces);
  }
  void unload_adapter(const std::string& name) { engine_->unload_adapter(name); }

 private:
  void compute();
  void hand_out();
  void fail_all(const std::exception_ptr& error);

  GenerationModel model_;
  std::unique_ptr<Model> assistant_;
  std::unique_ptr<DraftHead> head_;
  int64_t max_waiting_;
  std::function<void(int64_t tokens)> on_step_;
  std::shared_ptr<Evaluator> evaluator_;  // of the engine; null: this process alone
  std::unique_ptr<Engine> engine_;
  mutable std::once_flag vocabulary_made_;
  mutable std::shared_ptr<const constraint::Vocabulary> vocabulary_;
  mutable std::mutex mutex_;  // of all below; never held while the engine computes
  std::condition_variable work_, news_;
  std::map<uint64_t, std::pair<std::shared_ptr<GenerationListener>, int64_t>> listeners_;  // and sequences left
  std::deque<EngineEvent> events_;
  bool stopping_ = false, submitted_ = false;
  Clock::time_point last_step_ = Clock::now();
  std::thread computing_, handing_out_;
};

// The engine and tokenizer of a text-generation model.
void load_generator(ServedModel& served, const std::string& directory, const ServeOptions& options);

}  // namespace transom::serve
