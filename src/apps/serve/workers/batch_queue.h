// SPDX-License-Identifier: Apache-2.0
// Dynamic batching for one model: a thread takes the next input of the request whose turn it is, and all that wait and
// may go through the model with it. Only inputs of one length and of the same options share a batch, so nothing is
// padded and each result is, to the bit, that of the input alone.
//
// Turns go by tokens: first to the tenant that has had the least, then to its request that has had the least, as in
// start-time fair queueing (Goyal, Vin and Cheng, 1996). Who comes later starts level with those that are served.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/serve/api/api_error.h"
#include "apps/serve/http/message.h"

namespace transom::serve {

struct BatchLimits {
  int64_t max_batch_tokens = 16384;
  int64_t max_batch_rows = 64;
  int64_t max_waiting = 4096;  // inputs; more are refused with 429
};

struct BatchStatistics {
  int64_t waiting = 0, batches = 0, rows = 0, tokens = 0;
};

template <typename Item, typename Result>
class BatchQueue {
 public:
  struct Input {
    Item item;
    int64_t tokens = 1;
    std::string options;               // inputs with the same ones may share a batch
    std::optional<int64_t> cost = {};  // of inputs that are no tokens: what limits and turns count for it
    int64_t weight() const { return cost.value_or(tokens); }
  };
  // The results of a request in the order of its inputs, or the error of the first batch that failed. On the thread of
  // the queue: it must not block.
  using Done = std::function<void(std::vector<Result> results, std::exception_ptr error)>;
  // What else is told of a request, on the same thread.
  struct Watch {
    std::function<void(double seconds)> begun;                // its first input has its turn, so long after submit()
    std::function<void(int64_t rows, int64_t tokens)> batch;  // of each batch that begins with an input of its
  };
  // It may move out of the item of a batch of one, which is not tried again.
  using Compute = std::function<std::vector<Result>(std::vector<Item>& items, const std::string& options)>;

  BatchQueue(BatchLimits limits, Compute compute)
      : limits_(limits), compute_(std::move(compute)), thread_([this] { work(); }) {}

  ~BatchQueue() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Any thread. Throws ApiError 429 if the queue has no room for all of them. The request is dropped when `cancelled`
  // becomes true before its turn.
  void submit(std::vector<Input> inputs, Done done, std::shared_ptr<std::atomic<bool>> cancelled = nullptr,
              Watch watch = {}, const std::string& tenant = "") {
    auto request = std::make_shared<Request>();
    request->results.resize(inputs.size());
    request->left = inputs.size();
    request->done = std::move(done);
    request->cancelled = std::move(cancelled);
    request->watch = std::move(watch);
    if (inputs.empty()) return request->done({}, nullptr);
    {
      const std::lock_guard lock(mutex_);
      if (waiting_ + static_cast<int64_t>(inputs.size()) > limits_.max_waiting)
        throw ApiError(429, fmt::format("the queue of this model is full: {} inputs wait, at most {} may", waiting_,
                                        limits_.max_waiting));
      const auto [known, is_new] = tenants_.emplace(tenant, Turn{had_});
      Turn& own = known->second;
      request->tenant = known;
      request->had = own.had_of_requests;
      ++own.requests;
      size_t place = 0;
      for (Input& input : inputs) request->waiting.push_back({std::move(input), request, place++});
      waiting_ += static_cast<int64_t>(inputs.size());
      requests_.push_back(std::move(request));
    }
    changed_.notify_one();
  }

  BatchStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return {waiting_, batches_, rows_, tokens_};
  }

 private:
  struct Request;
  struct Waiting {
    Input input;
    std::shared_ptr<Request> request;
    size_t place;
  };
  // Of a tenant with requests in the queue: the tokens that it has had, and those of its request that was last chosen.
  struct Turn {
    int64_t had = 0, had_of_requests = 0;
    size_t requests = 0;
  };
  using Tenants = std::map<std::string, Turn>;
  struct Request {
    std::list<Waiting> waiting;  // which belong to the request, and hold it
    typename Tenants::iterator tenant;
    int64_t had = 0;  // tokens
    std::vector<Result> results;
    size_t left = 0;
    Done done;
    std::shared_ptr<std::atomic<bool>> cancelled;
    Watch watch;
    const Clock::time_point submitted = Clock::now();
    bool is_cancelled() const { return cancelled && *cancelled; }
  };
  using Requests = std::list<std::shared_ptr<Request>>;

  // Out of the queue, with what waits of it.
  typename Requests::iterator leave(typename Requests::iterator request) {
    Request& gone = **request;
    waiting_ -= static_cast<int64_t>(gone.waiting.size());
    gone.waiting.clear();
    // Who sends one short request behind the other must not be always first.
    Turn& turn = gone.tenant->second;
    turn.had_of_requests = std::max(turn.had_of_requests, gone.had);
    had_ = std::max(had_, turn.requests == 1 ? turn.had : 0);
    if (--gone.tenant->second.requests == 0) tenants_.erase(gone.tenant);
    return requests_.erase(request);
  }

  // Those that failed before, or whose client left, go.
  typename Requests::iterator next_request() {
    auto next = requests_.end();
    const auto turn_of = [](const Request& request) { return std::pair(request.tenant->second.had, request.had); };
    for (auto each = requests_.begin(); each != requests_.end();) {
      if (!(*each)->done || (*each)->is_cancelled()) {
        each = leave(each);
        continue;
      }
      if (next == requests_.end() || turn_of(**each) < turn_of(**next)) next = each;
      ++each;
    }
    return next;
  }

  // The next input of the request whose turn it is, and what shares its length and options, of that request first, as
  // far as the limits allow.
  std::vector<Waiting> next_batch() {
    std::vector<Waiting> batch;
    const auto first = next_request();
    if (first == requests_.end()) return batch;
    Turn& turn = (*first)->tenant->second;
    had_ = std::max(had_, turn.had);
    turn.had_of_requests = std::max(turn.had_of_requests, (*first)->had);
    int64_t weight = 0;
    const auto take_from = [&](Request& request) {
      for (auto each = request.waiting.begin(); each != request.waiting.end();) {
        const bool fits = batch.empty() || (static_cast<int64_t>(batch.size()) < limits_.max_batch_rows &&
                                            each->input.tokens == batch[0].input.tokens &&
                                            each->input.options == batch[0].input.options &&
                                            weight + each->input.weight() <= limits_.max_batch_tokens);
        if (!fits) {
          ++each;
          continue;
        }
        const int64_t cost = std::max<int64_t>(each->input.weight(), 1);
        request.had += cost, request.tenant->second.had += cost;
        weight += each->input.weight();
        batch.push_back(std::move(*each));
        each = request.waiting.erase(each);
        --waiting_;
      }
    };
    take_from(**first);
    for (const auto& request : requests_)
      if (request != *first) take_from(*request);
    for (auto each = requests_.begin(); each != requests_.end();)
      each = (*each)->waiting.empty() ? leave(each) : std::next(each);
    ++batches_, rows_ += static_cast<int64_t>(batch.size()), tokens_ += tokens_of(batch);
    return batch;
  }

  // Inputs that share no batch have lengths below 0, which are no tokens.
  static int64_t tokens_of(const std::vector<Waiting>& batch) {
    return std::max<int64_t>(batch[0].input.tokens, 0) * static_cast<int64_t>(batch.size());
  }

  static void tell(const std::vector<Waiting>& batch) {
    if (const auto& told = batch[0].request->watch.batch) told(static_cast<int64_t>(batch.size()), tokens_of(batch));
    for (const Waiting& each : batch)
      if (const auto begun = std::exchange(each.request->watch.begun, nullptr))
        begun(std::chrono::duration<double>(Clock::now() - each.request->submitted).count());
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
      if (stopping_) break;
      std::vector<Waiting> batch = next_batch();
      if (batch.empty()) continue;
      lock.unlock();
      tell(batch);
      run(batch);
      batch.clear();
      lock.lock();
    }
    const Requests dropped = requests_;
    while (!requests_.empty()) leave(requests_.begin());
    lock.unlock();
    for (const auto& request : dropped)
      give_up(*request, std::make_exception_ptr(ApiError(503, "the server is ending")));
  }

  void run(std::vector<Waiting>& batch) {
    std::vector<Item> items;
    for (Waiting& each : batch) items.push_back(std::move(each.input.item));
    std::vector<Result> results;
    try {
      results = compute_(items, batch[0].input.options);
      if (results.size() != batch.size()) fail(ErrorKind::kInternal, "a batch gave another number of results");
    } catch (...) {
      // One bad input must not fail its company: each is tried alone.
      if (batch.size() > 1) return run_alone(batch, items);
      return give_up(*batch[0].request, std::current_exception());
    }
    for (size_t i = 0; i < batch.size(); ++i) take(batch[i], std::move(results[i]));
  }

  void run_alone(std::vector<Waiting>& batch, std::vector<Item>& items) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!batch[i].request->done) continue;
      try {
        std::vector<Item> one;
        one.push_back(std::move(items[i]));
        take(batch[i], std::move(compute_(one, batch[i].input.options).at(0)));
      } catch (...) {
        give_up(*batch[i].request, std::current_exception());
      }
    }
  }

  void take(Waiting& each, Result result) {
    Request& request = *each.request;
    request.results[each.place] = std::move(result);
    if (--request.left > 0 || !request.done) return;
    const Done done = std::move(request.done);
    request.done = nullptr;
    done(std::move(request.results), nullptr);
  }

  void give_up(Request& request, std::exception_ptr error) {
    if (!request.done) return;
    const Done done = std::move(request.done);
    request.done = nullptr;
    done({}, error);
  }

  BatchLimits limits_;
  Compute compute_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Requests requests_;    // that have inputs which wait, in order of arrival
  Tenants tenants_;      // of these
  int64_t had_ = 0;      // of the tenant that was last chosen
  int64_t waiting_ = 0;  // inputs
  bool stopping_ = false;
  int64_t batches_ = 0, rows_ = 0, tokens_ = 0;
  std::thread thread_;
};

}  // namespace transom::serve
