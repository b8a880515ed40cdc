// SPDX-License-Identifier: Apache-2.0
// The models of a server within a budget of memory: those that were asked for least recently make room for others, and
// are loaded again when somebody asks.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/models/eviction_plan.h"
#include "apps/serve/models/model_facts.h"

namespace transom::serve {

struct ServedModel;
struct ServeOptions;

// load() comes first, then all others by any thread.
class ModelPool {
 public:
  explicit ModelPool(const ServeOptions& options);
  ~ModelPool();

  // Loads each model once, so that a broken one is found now and its size is known; `loading` is called before each.
  // Throws Error, also for a model whose weights alone are larger than the budget.
  void load(const std::function<void(size_t number, const std::string& name)>& loading);
  // Takes all models down; nobody may use one any more.
  void clear();

  // Of all models in their order; empty before load() has ended. They stay as they are until clear().
  std::vector<const ModelFacts*> facts() const;
  // The model in memory for as long as somebody holds the result. Where it is not there, its loading begins and this
  // throws ApiError 503; 500 with the reason where it could not be loaded.
  std::shared_ptr<ServedModel> lease(const ModelFacts& facts);
  // Calls `look` with the model if it is in memory. It must be quick: nobody gets a lease meanwhile.
  void look_at(const ModelFacts& facts, const std::function<void(const ServedModel&)>& look) const;
  void for_each(const std::function<void(const ServedModel&)>& look) const;
  // Bytes that the models in memory are counted with.
  int64_t bytes() const;
  // How often a model was loaded after load() had ended.
  int64_t reloads() const;

 private:
  struct Entry;
  Entry& entry_of(const ModelFacts& facts) const;
  void load_wanted();
  EvictionPlan plan() const;
  void load_again(Entry& entry, std::unique_lock<std::mutex>& lock);
  void load_first(Entry& entry, std::unique_lock<std::mutex>& lock);
  void make_room(const Entry& kept, std::unique_lock<std::mutex>& lock);
  void keep(Entry& entry, std::unique_ptr<ServedModel> model);
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock);

  const ServeOptions& options_;
  mutable std::mutex mutex_;  // of all below; not held while a model is loaded or taken down
  std::condition_variable news_;
  std::vector<std::unique_ptr<Entry>> entries_;
  uint64_t time_ = 0;  // grows with each request
  int64_t reloads_ = 0;
  bool ready_ = false, stopping_ = false;
  std::thread loader_;
};

}  // namespace transom::serve
