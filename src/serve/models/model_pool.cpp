// SPDX-License-Identifier: Apache-2.0
#include "serve/models/model_pool.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "serve/api/api_error.h"
#include "serve/models/served_model.h"

namespace transom::serve {
namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

// `leaving`: another model needs its place; it gets no new requests and goes when the last one has ended.
struct ModelPool::Entry {
  ModelSource source;
  ModelFacts facts;
  std::unique_ptr<ServedModel> model;  // null while it is not in memory
  int64_t bytes = 0;                   // that it is counted with
  int64_t leases = 0;
  uint64_t last_use = 0, wanted = 0;  // times; `wanted` 0: nobody waits for it
  bool leaving = false;
  std::string failure;  // why it could not be loaded again
};

ModelPool::ModelPool(const ServeOptions& options) : options_(options) {}

ModelPool::~ModelPool() { clear(); }

void ModelPool::load(const std::function<void(size_t, const std::string&)>& loading) {
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
      entry.bytes = weight_bytes_of(entry.source, options_);
      lock.lock();
      if (options_.memory_budget > 0 && entry.bytes > options_.memory_budget)
        fail("--memory_budget: {} bytes do not hold the weights of {}, which have {}", options_.memory_budget,
             quoted(entry.source.name), entry.bytes);
      load_entry(entry, lock);
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
  entry.last_use = ++time_;
  if (!entry.model || entry.leaving) {
    if (entry.wanted == 0) entry.wanted = time_;
    news_.notify_all();
    if (!entry.failure.empty())
      throw ApiError(
          503, fmt::format("the model {} could not be loaded again; the server's log says why", quoted(facts.name)));
    throw ApiError(503, fmt::format("the model {} is being loaded; try again in a moment", quoted(facts.name)));
  }
  ++entry.leases;
  return {entry.model.get(), [this, &entry](ServedModel*) {
            {
              const std::lock_guard returned(mutex_);
              --entry.leases;
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
    if (entry->model) sum += entry->bytes;
  return sum;
}

int64_t ModelPool::reloads() const {
  const std::lock_guard lock(mutex_);
  return reloads_;
}

void ModelPool::load_wanted() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Entry* next = nullptr;  // whoever waits longest
    for (const auto& entry : entries_)
      if (entry->wanted > 0 && (!next || entry->wanted < next->wanted)) next = entry.get();
    if (!next) {
      news_.wait(lock);
      continue;
    }
    try {
      if (next->leaving) {
        // It goes first: what it leaves for was wanted before.
        while (!stopping_ && next->leases > 0) news_.wait(lock);
        if (stopping_) return;
        unload(*next, lock);
      }
      if (!next->model) {
        load_entry(*next, lock);
        ++reloads_;
      }
      next->failure.clear();
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) lock.lock();
      next->failure = error.what();
      log(LogLevel::kWarning, fmt::format("{}: {}", next->source.name, error.what()));
    }
    next->wanted = 0;
  }
}

void ModelPool::make_room(Entry& wanted, std::unique_lock<std::mutex>& lock) {
  while (options_.memory_budget > 0 && !stopping_) {
    int64_t sum = wanted.bytes;
    Entry* oldest = nullptr;  // of those that nobody uses if there are any
    for (const auto& entry : entries_) {
      if (!entry->model || entry.get() == &wanted) continue;
      sum += entry->bytes;
      const auto rank = [](const Entry& each) { return std::pair(each.leases > 0, each.last_use); };
      if (!oldest || rank(*entry) < rank(*oldest)) oldest = entry.get();
    }
    if (sum <= options_.memory_budget || !oldest) return;
    if (oldest->leases == 0) {
      unload(*oldest, lock);
      continue;
    }
    oldest->leaving = true;
    while (oldest->leases > 0 && !stopping_) news_.wait(lock);
    if (!stopping_) unload(*oldest, lock);
  }
}

void ModelPool::unload(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<ServedModel> model = std::move(entry.model);
  entry.leaving = false;
  lock.unlock();
  log(LogLevel::kInfo, fmt::format("{}: makes room for another model", entry.source.name));
  model.reset();
  ::malloc_trim(0);  // what it held goes back to the system, as the budget counts it
  lock.lock();
}

void ModelPool::load_entry(Entry& entry, std::unique_lock<std::mutex>& lock) {
  make_room(entry, lock);
  if (stopping_) return;
  const int64_t least = std::max<int64_t>(entry.facts.weight_bytes, entry.bytes);
  lock.unlock();
  const int64_t before = resident_bytes();
  std::unique_ptr<ServedModel> model = load_served_model(entry.source, options_);
  const int64_t grown = resident_bytes() - before;
  lock.lock();
  model->weight_bytes = entry.facts.weight_bytes > 0 ? entry.facts.weight_bytes : entry.bytes;
  if (!ready_) entry.facts = *model;  // others look at them from then on
  entry.bytes = std::max(least, grown);
  entry.model = std::move(model);
  entry.last_use = ++time_;
  make_room(entry, lock);  // it was larger than its files say
}

}  // namespace transom::serve
