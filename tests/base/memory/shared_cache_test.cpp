// SPDX-License-Identifier: Apache-2.0
// Who asks twice at once, who asks for something else, and what is let go of.
#include "base/memory/shared_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace transom {
namespace {

struct Value {
  int number;
  size_t bytes = 100;
  size_t memory_bytes() const { return bytes; }
};
using Cache = SharedCache<int, Value>;

class SharedCaches : public testing::Test {
 protected:
  ~SharedCaches() override { set_limit_of_caches(before_); }
  size_t before_ = cache_limit();
};

TEST_F(SharedCaches, MakeAValueOnceForAllWhoAskForItMeanwhile) {
  Cache cache("test");
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> made{0}, right{0};
  const auto ask = [&] {
    right += cache
                 .find(7,
                       [&] {
                         gone.wait();
                         return std::make_shared<Value>(++made);
                       })
                 ->number == 1;
  };
  std::thread first(ask), second(ask);
  while (cache.use().hits + cache.use().misses < 2) std::this_thread::yield();
  // A value that is being made holds up nobody who wants another one.
  EXPECT_EQ(cache.find(8, [] { return std::make_shared<Value>(80); })->number, 80);
  go.set_value();
  first.join();
  second.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(right, 2);
  EXPECT_EQ(cache.use().entries, 2u);
  EXPECT_EQ(cache.use().misses, 2u);
}

TEST_F(SharedCaches, LetGoOfWhatWasUsedLeastRecently) {
  set_limit_of_caches(350);
  Cache cache("test");
  const auto ask = [&](int key) { return cache.find(key, [&] { return std::make_shared<Value>(key); }); };
  const std::shared_ptr<Value> held = ask(1);
  for (const int key : {2, 3, 2, 4}) ask(key);  // 1 goes
  EXPECT_EQ(cache.use().evictions, 1u);
  EXPECT_EQ(cache.use().bytes, 300u);
  EXPECT_EQ(held->number, 1);  // for who holds it, it stays
  ask(2);
  EXPECT_EQ(cache.use().misses, 4u);
  ask(1);  // 3 goes
  ask(2);
  EXPECT_EQ(cache.use().misses, 5u);
  ask(3);
  EXPECT_EQ(cache.use().misses, 6u);
  set_limit_of_caches(10);
  cache.trim();
  EXPECT_EQ(cache.use().entries, 1u);  // the newest stays
}

TEST_F(SharedCaches, CountAValueThatGrows) {
  set_limit_of_caches(350);
  Cache cache("test");
  const auto ask = [&](int key) { return cache.find(key, [&] { return std::make_shared<Value>(key); }); };
  ask(1);
  const std::shared_ptr<Value> second = ask(2);
  second->bytes = 300;
  cache.resized(2, *second);
  EXPECT_EQ(cache.use().entries, 1u);
  EXPECT_EQ(cache.use().bytes, 300u);
}

TEST_F(SharedCaches, ForgetWhatIsWanted) {
  Cache cache("test");
  const auto ask = [&](int key) { return cache.find(key, [&] { return std::make_shared<Value>(key); }); };
  const std::shared_ptr<Value> held = ask(1);
  ask(2), ask(3);
  const auto gone =
      cache.erase_if([](int key, const std::shared_ptr<Value>& value) { return key == 3 || value.use_count() > 1; });
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_EQ(gone[0]->number + gone[1]->number, 4);
  EXPECT_EQ(held->number, 1);
  EXPECT_EQ(cache.use().entries, 1u);
  EXPECT_NE(ask(1), held);
}

// One asker's value is gone from the cache, another asker makes it anew, and the first one's grows.
TEST_F(SharedCaches, ResizeOnlyTheValueThatIsTheirOwn) {
  set_limit_of_caches(150);
  Cache cache("test");
  const std::shared_ptr<Value> old = cache.find(1, [] { return std::make_shared<Value>(1); });
  cache.find(2, [] { return std::make_shared<Value>(2); });  // 1 goes
  std::promise<void> go;
  std::atomic<int> made{0};
  const auto ask = [&] {
    return cache.find(1, [&] {
      ++made;
      go.get_future().wait();
      return std::make_shared<Value>(10);
    });
  };
  std::thread other([&] { EXPECT_EQ(ask()->number, 10); });
  while (made == 0) std::this_thread::yield();
  const CacheUse before = cache.use();
  old->bytes = 1000;
  cache.resized(1, *old);
  EXPECT_EQ(cache.use().bytes, before.bytes);
  cache.find(3, [] { return std::make_shared<Value>(3); });  // what is being made stays
  std::thread third([&] { EXPECT_EQ(ask()->number, 10); });
  while (cache.use().hits == before.hits) std::this_thread::yield();
  go.set_value();
  other.join();
  third.join();
  EXPECT_EQ(made, 1);
}

TEST_F(SharedCaches, KeepNoFailure) {
  Cache cache("test");
  EXPECT_THROW(cache.find(1, []() -> std::shared_ptr<Value> { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(cache.use().entries, 0u);
  EXPECT_EQ(cache.find(1, [] { return std::make_shared<Value>(5); })->number, 5);
}

TEST_F(SharedCaches, AreAskedByManyThreadsWhileTheyLetGo) {
  set_limit_of_caches(1000);
  Cache cache("test");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        const int key = (i * 7 + t * 13) % 40;
        wrong += cache.find(key, [&] { return std::make_shared<Value>(key); })->number != key;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.use().bytes, 1000u);
  EXPECT_GT(cache.use().evictions, 0u);
}

}  // namespace
}  // namespace transom
