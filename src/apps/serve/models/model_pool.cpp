// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/models/model_pool.h"

#include <malloc.h>

#include "apps/serve/api/api_error.h"
#include "apps/serve/models/served_model.h"
#include "base/error.h"
#include "base/memory/resident_memory.h"
#include "base/terminal/log.h"
#include "files/hub/resolve.h"

namespace transom::serve {
namespace {

// A model that could not be loaded is not tried again sooner: others may leave memory for it each time.
constexpr std::chrono::seconds kTimeBetweenTrials{10};

// What is for models that write is dropped by all others.
void expect_writer(const ServeOptions& options) {
  const bool adapts = !options.adapters.empty();
  const bool drafts = options.drafts.method != DraftOptions::Method::kNone;
  if (!adapts && !drafts && options.assistant_model.empty()) return;
  std::vector<std::string> tasks;
  for (const ModelSource& source : options.models) {
    const std::string task =
        options.task.empty() ? task_of_model(resolve_model(source.path, options.hub).string()) : options.task;
    if (task == "text-generation") return;
    tasks.push_back(fmt::format("{} ({})", source.name, task));
  }
  fail(ErrorKind::kUsage, "{}: expected a model that writes text among those that are served, found {}",
       adapts   ? "--lora " + options.adapters[0].first
       : drafts ? "--speculative_config"
                : "--assistant_model",
       fmt::join(tasks, ", "));
}

}  // namespace

struct ModelPool::Entry {
  ModelSource source;
  ModelFacts facts;
  std::unique_ptr<ServedModel> model;  // null while it is not in memory
  ModelState state;
  std::string failure;  // why it could not be loaded again
  std::chrono::steady_clock::time_point failed{};
};

ModelPool::ModelPool(const ServeOptions& options) : options_(options) {}

ModelPool::~ModelPool() { clear(); }

void ModelPool::load(const std::function<void(size_t, const std::string&)>& loading) {
  expect_writer(options_);
  std::unique_lock lock(mutex_);
  for (const ModelSource& source : options_.models) {
    auto entry = std::make_unique<Entry>();
    entry->source = source;
    entry->facts.name = source.name;
    entries_.push_back(std::move(entry));
  }
  try {
    for (size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = *entries_[i];
      lock.unlock();
      if (loading) loading(i, entry.source.name);
      const int64_t bytes = weight_bytes_of(entry.source, options_);
      lock.lock();
      entry.state.bytes = bytes;
      if (options_.memory_budget > 0 && bytes > options_.memory_budget)
        fail("--memory_budget: {} bytes do not hold the weights of {}, which have {}", options_.memory_budget,
             quoted(entry.source.name), bytes);
      load_first(entry, lock);
    }
  } catch (...) {
    if (lock.owns_lock()) lock.unlock();
    clear();
    throw;
  }
  ready_ = true;
  if (options_.memory_budget > 0) loader_ = std::thread([this] { load_wanted(); });
}

void ModelPool::clear() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ready_ = false;
  }
  news_.notify_all();
  if (loader_.joinable()) loader_.join();
  std::vector<std::unique_ptr<ServedModel>> models;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : entries_) models.push_back(std::move(entry->model));
  }
}

std::vector<const ModelFacts*> ModelPool::facts() const {
  const std::lock_guard lock(mutex_);
  std::vector<const ModelFacts*> list;
  if (!ready_) return list;
  for (const auto& entry : entries_) list.push_back(&entry->facts);
  return list;
}

ModelPool::Entry& ModelPool::entry_of(const ModelFacts& facts) const {
  for (const auto& entry : entries_)
    if (&entry->facts == &facts) return *entry;
  fail(ErrorKind::kInternal, "a model that is not of this server");
}

std::shared_ptr<ServedModel> ModelPool::lease(const ModelFacts& facts) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(facts);
  if (stopping_) throw ApiError(503, "the server is ending");
  entry.state.last_use = ++time_;
  if (!entry.model || entry.state.leaving) {
    if (entry.state.wanted == 0) entry.state.wanted = time_;
    news_.notify_all();
    if (!entry.failure.empty())
      throw ApiError(500, fmt::format("the model {} cannot be loaded: {}", quoted(facts.name), entry.failure));
    throw ApiError(503, fmt::format("the model {} is being loaded; try again in a moment", quoted(facts.name)));
  }
  ++entry.state.leases;
  return {entry.model.get(), [this, &entry](ServedModel*) {
            {
              const std::lock_guard returned(mutex_);
              --entry.state.leases;
              entry.state.answered = true;
            }
            news_.notify_all();
          }};
}

void ModelPool::look_at(const ModelFacts& facts, const std::function<void(const ServedModel&)>& look) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entry_of(facts);
  if (entry.model) look(*entry.model);
}

void ModelPool::for_each(const std::function<void(const ServedModel&)>& look) const {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_)
    if (ready_ && entry->model) look(*entry->model);
}

int64_t ModelPool::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& entry : entries_)
    if (entry->model) sum += entry->state.bytes;
  return sum;
}

int64_t ModelPool::reloads() const {
  const std::lock_guard lock(mutex_);
  return reloads_;
}

EvictionPlan ModelPool::plan() const {
  const auto now = std::chrono::steady_clock::now();
  std::vector<ModelState> states;
  std::optional<std::chrono::steady_clock::time_point> trial;
  for (const auto& entry : entries_) {
    ModelState& state = states.emplace_back(entry->state);
    if (state.wanted == 0 || entry->failure.empty()) continue;
    const auto next = entry->failed + kTimeBetweenTrials;
    if (next <= now) continue;
    state.wanted = 0;
    trial = trial ? std::min(*trial, next) : next;
  }
  EvictionPlan plan = plan_evictions(states, options_.memory_budget, now);
  if (trial) plan.look_again = plan.look_again ? std::min(*plan.look_again, *trial) : trial;
  return plan;
}

// Chooses anew after all that happens: who waits for a long answer to end holds up nobody else.
void ModelPool::load_wanted() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const EvictionPlan next = plan();
    for (size_t i = 0; i < entries_.size(); ++i) {
      ModelState& state = entries_[i]->state;
      state.leaving = next.leaving[i];
      if (state.in_memory && !state.leaving) state.wanted = 0;
    }
    if (!next.load) {
      if (next.look_again) news_.wait_until(lock, *next.look_again);
      else news_.wait(lock);
      continue;
    }
    // Nobody begins to use what goes while the others that go are taken down.
    for (const size_t i : next.unload) entries_[i]->state.leaving = true;
    for (const size_t i : next.unload) unload(*entries_[i], lock);
    if (stopping_) return;
    load_again(*entries_[*next.load], lock);
  }
}

void ModelPool::load_again(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<ServedModel> model;
  std::string failure;
  lock.unlock();
  try {
    model = load_served_model(entry.source, options_);
  } catch (const std::exception& error) {
    failure = error.what();
    log(LogLevel::kWarning, fmt::format("{}: {}", entry.source.name, failure));
  }
  lock.lock();
  entry.failure = failure;
  entry.state.wanted = 0;
  if (!model) {
    entry.failed = std::chrono::steady_clock::now();
    return;
  }
  model->weight_bytes = entry.facts.weight_bytes;
  keep(entry, std::move(model));
  ++reloads_;
}

void ModelPool::keep(Entry& entry, std::unique_ptr<ServedModel> model) {
  entry.model = std::move(model);
  entry.state.in_memory = true;
  entry.state.answered = !ready_;  // at the start nobody waits for it
  entry.state.loaded = std::chrono::steady_clock::now();
  entry.state.last_use = ++time_;
}

void ModelPool::unload(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<ServedModel> model = std::move(entry.model);
  lock.unlock();
  log(LogLevel::kInfo, fmt::format("{}: makes room for another model", entry.source.name));
  model.reset();
  ::malloc_trim(0);  // what it held goes back to the system, as the budget counts it
  lock.lock();
  entry.state.leaving = entry.state.in_memory = false;
}

void ModelPool::make_room(const Entry& kept, std::unique_lock<std::mutex>& lock) {
  while (options_.memory_budget > 0) {
    int64_t sum = kept.state.bytes;
    Entry* oldest = nullptr;
    for (const auto& entry : entries_) {
      if (!entry->model || entry.get() == &kept) continue;
      sum += entry->state.bytes;
      if (!oldest || entry->state.last_use < oldest->state.last_use) oldest = entry.get();
    }
    if (sum <= options_.memory_budget || !oldest) return;
    unload(*oldest, lock);
  }
}

// Nobody else computes yet, so that what the process grows by is what the model takes: it is counted so from then on.
void ModelPool::load_first(Entry& entry, std::unique_lock<std::mutex>& lock) {
  make_room(entry, lock);
  const int64_t files = entry.state.bytes;
  lock.unlock();
  const int64_t before = resident_bytes();
  std::unique_ptr<ServedModel> model = load_served_model(entry.source, options_);
  const int64_t grown = resident_bytes() - before;
  lock.lock();
  model->weight_bytes = files;
  entry.facts = *model;  // others look at them from the end of load() on
  entry.state.bytes = std::max(files, grown);
  keep(entry, std::move(model));
  make_room(entry, lock);  // it was larger than its files say
}

}  // namespace transom::serve
