// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/workers/batch_queue.h"

#include <gtest/gtest.h>

#include <future>

namespace transom::serve {
namespace {

// A queue whose batches wait until they are let through, one by one.
class TurnsOfBatches : public testing::Test {
 protected:
  using Queue = BatchQueue<int, int>;
  static constexpr int64_t kRows = 4;

  TurnsOfBatches()
      : queue_({.max_batch_tokens = 1000, .max_batch_rows = kRows, .max_waiting = 1000},
               [this](const std::vector<int>& items, const std::string&) {
                 std::unique_lock lock(mutex_);
                 batches_.push_back(items);
                 changed_.notify_all();
                 changed_.wait(lock, [&] { return open_ >= batches_.size(); });
                 return items;
               }) {
    submit("first", {-1}, 99);  // holds the thread while a test fills the queue
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() == 1; });
  }
  ~TurnsOfBatches() override { let_through(SIZE_MAX); }

  std::future<void> submit(const std::string& tenant, const std::vector<int>& items, int64_t tokens) {
    std::vector<Queue::Input> inputs;
    for (const int item : items) inputs.push_back({item, tokens, ""});
    auto told = std::make_shared<std::promise<void>>();
    auto future = told->get_future();
    queue_.submit(
        std::move(inputs), [told](std::vector<int>, std::exception_ptr) { told->set_value(); }, nullptr, {}, tenant);
    return future;
  }
  void let_through(size_t batches) {
    const std::lock_guard lock(mutex_);
    open_ = batches;
    changed_.notify_all();
  }
  // Ends the batch in work; the next one has begun then.
  void let_next_through() {
    std::unique_lock lock(mutex_);
    const size_t now = batches_.size();
    open_ = now;
    changed_.notify_all();
    changed_.wait(lock, [&] { return batches_.size() > now; });
  }
  // The place of the first batch that holds the item.
  size_t batch_of(int item) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < batches_.size(); ++i)
      if (std::find(batches_[i].begin(), batches_[i].end(), item) != batches_[i].end()) return i;
    return SIZE_MAX;
  }
  size_t batches() {
    const std::lock_guard lock(mutex_);
    return batches_.size();
  }
  static std::vector<int> numbers(int from, int count) {
    std::vector<int> list;
    for (int i = 0; i < count; ++i) list.push_back(from + i);
    return list;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<int>> batches_;
  size_t open_ = 0;
  Queue queue_;
};

TEST_F(TurnsOfBatches, AShortRequestDoesNotWaitForALongOne) {
  auto large = submit("a", numbers(1000, 100), 10);
  auto small = submit("a", {1900}, 3);
  let_through(SIZE_MAX);
  small.get(), large.get();
  EXPECT_LE(batch_of(1900), 2u) << "behind one batch of the other at most";
  EXPECT_EQ(batches(), 1u + 25 + 1) << "batches of one asker are as full as alone";
}

TEST_F(TurnsOfBatches, AnothersShortRequestDoesNotWaitForALongOne) {
  auto large = submit("a", numbers(1000, 100), 10);
  let_next_through();  // the first of the long one is in work
  auto small = submit("b", {1900}, 3);
  let_through(SIZE_MAX);
  small.get(), large.get();
  EXPECT_EQ(batch_of(1900), 2u);
}

TEST_F(TurnsOfBatches, TenantsShareEvenlyHoweverManyTheirRequestsAre) {
  std::vector<std::future<void>> all;
  for (int i = 0; i < 10; ++i) all.push_back(submit("many", numbers(1000 + 100 * i, 8), 10));
  all.push_back(submit("one", numbers(9000, 16), 11));
  let_through(SIZE_MAX);
  for (auto& each : all) each.get();
  // Its four batches lie between at most as many of the other's, each of about as many tokens.
  EXPECT_LE(batch_of(9015), 9u);
}

// Each comes while the one before is computed.
TEST_F(TurnsOfBatches, ALongRequestGoesOnBesideManyShortOnes) {
  for (const char* other : {"a", "b"}) {
    const int base = *other * 10'000;
    auto large = submit("a", numbers(base, 12), 10);
    std::vector<std::future<void>> small;
    const size_t before = batches();
    for (int i = 0; i < 20; ++i) {
      small.push_back(submit(other, {base + 100 + i}, 20 + i));
      let_next_through();
    }
    EXPECT_LT(batch_of(base + 11), before + 20) << other;
  }
}

TEST_F(TurnsOfBatches, InputsOfOneLengthGoTogetherWhoeverAsks) {
  auto a = submit("a", {1, 2}, 10), b = submit("b", {3, 4}, 10), c = submit("b", {5}, 7);
  let_through(SIZE_MAX);
  a.get(), b.get(), c.get();
  EXPECT_EQ(batch_of(1), batch_of(4));
  EXPECT_NE(batch_of(5), batch_of(4));
}

// Of inputs that are no tokens, such as pictures, a batch has as many as their cost allows.
TEST_F(TurnsOfBatches, CostsLimitABatchAndAreNoTokens) {
  std::vector<Queue::Input> inputs;
  for (const int item : {1, 2, 3}) inputs.push_back({item, 0, "", 400});
  std::promise<void> told;
  queue_.submit(std::move(inputs), [&](std::vector<int>, std::exception_ptr) { told.set_value(); });
  const int64_t tokens = queue_.statistics().tokens;
  let_through(SIZE_MAX);
  told.get_future().get();
  EXPECT_EQ(batch_of(1), batch_of(2));
  EXPECT_NE(batch_of(2), batch_of(3));
  EXPECT_EQ(queue_.statistics().tokens, tokens);
}

TEST_F(TurnsOfBatches, WhoLeavesTakesNoTurn) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  std::vector<Queue::Input> inputs;
  for (int i = 0; i < 20; ++i) inputs.push_back({100 + i, 10, ""});
  queue_.submit(
      std::move(inputs), [](std::vector<int>, std::exception_ptr) {}, gone);
  auto stays = submit("a", {1}, 5);
  EXPECT_EQ(queue_.statistics().waiting, 21);
  *gone = true;
  let_through(SIZE_MAX);
  stays.get();
  EXPECT_EQ(batch_of(100), SIZE_MAX);
  EXPECT_EQ(queue_.statistics().waiting, 0);
}

}  // namespace
}  // namespace transom::serve
