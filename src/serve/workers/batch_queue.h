// SPDX-License-Identifier: Apache-2.0
// Dynamic batching for one model: inputs of all requests wait in one queue, a thread takes the oldest and those that
// may go through the model with it. Only inputs of one length and of the same options share a batch, so nothing is
// padded and each result is, to the bit, that of the input alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/http/message.h"

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
    std::string options;  // inputs with the same ones may share a batch
  };
  // The results of a request in the order of its inputs, or the error of the first batch that failed. On the thread of
  // the queue: it must not block.
  using Done = std::function<void(std::vector<Result> results, std::exception_ptr error)>;
  // What else is told of a request, on the same thread.
  struct Watch {
    std::function<void(double seconds)> begun;                // its first input has its turn, so long after submit()
    std::function<void(int64_t rows, int64_t tokens)> batch;  // of each batch that begins with an input of its
  };
  using Compute = std::function<std::vector<Result>(const std::vector<Item>& items, const std::string& options)>;

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
              Watch watch = {}) {
    auto request = std::make_shared<Request>();
    request->results.resize(inputs.size());
    request->left = inputs.size();
    request->done = std::move(done);
    request->cancelled = std::move(cancelled);
    request->watch = std::move(watch);
    if (inputs.empty()) return request->done({}, nullptr);
    {
      const std::lock_guard lock(mutex_);
      if (static_cast<int64_t>(waiting_.size() + inputs.size()) > limits_.max_waiting)
        throw ApiError(429, fmt::format("the queue of this model is full: {} inputs wait, at most {} may",
                                        waiting_.size(), limits_.max_waiting));
      size_t place = 0;
      for (Input& input : inputs) waiting_.push_back({std::move(input), request, place++});
    }
    changed_.notify_one();
  }

  BatchStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(waiting_.size()), batches_, rows_, tokens_};
  }

 private:
  struct Request {
    std::vector<Result> results;
    size_t left = 0;
    Done done;
    std::shared_ptr<std::atomic<bool>> cancelled;
    Watch watch;
    const Clock::time_point submitted = Clock::now();
    bool is_cancelled() const { return cancelled && *cancelled; }
  };
  struct Waiting {
    Input input;
    std::shared_ptr<Request> request;
    size_t place;
  };

  // The oldest, and what shares its length and options, as far as the limits allow.
  std::vector<Waiting> next_batch() {
    std::vector<Waiting> batch;
    int64_t tokens = 0;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (!each->request->done || each->request->is_cancelled()) {  // failed before, or its client left
        each = waiting_.erase(each);
        continue;
      }
      const bool fits = batch.empty() ||
                        (each->input.tokens == batch[0].input.tokens && each->input.options == batch[0].input.options &&
                         tokens + each->input.tokens <= limits_.max_batch_tokens);
      if (fits) {
        tokens += each->input.tokens;
        batch.push_back(std::move(*each));
        each = waiting_.erase(each);
        if (static_cast<int64_t>(batch.size()) == limits_.max_batch_rows) break;
      } else {
        ++each;
      }
    }
    if (!batch.empty()) ++batches_, rows_ += static_cast<int64_t>(batch.size()), tokens_ += tokens_of(batch);
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
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) break;
      std::vector<Waiting> batch = next_batch();
      if (batch.empty()) continue;
      lock.unlock();
      tell(batch);
      run(batch);
      batch.clear();
      lock.lock();
    }
    std::list<Waiting> dropped;
    dropped.swap(waiting_);
    lock.unlock();
    for (Waiting& each : dropped)
      give_up(*each.request, std::make_exception_ptr(ApiError(503, "the server is ending")));
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
  std::list<Waiting> waiting_;
  bool stopping_ = false;
  int64_t batches_ = 0, rows_ = 0, tokens_ = 0;
  std::thread thread_;
};

}  // namespace transom::serve
