// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/lru_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace transom::cpu {
namespace {

using Cache = LruCache<int, const int>;

std::shared_ptr<const int> make(int value) { return std::make_shared<const int>(value); }

TEST(LruCache, HoldsSoManyAndLetsTheOldestGo) {
  Cache cache(3);
  int made = 0;
  const auto ask = [&](int key) {
    return *cache.find(key, [&] {
      ++made;
      return make(10 * key);
    });
  };
  for (const int key : {1, 2, 3}) EXPECT_EQ(ask(key), 10 * key);
  ask(1);  // 2 is the oldest now
  ask(4);
  EXPECT_EQ(made, 4);
  EXPECT_EQ(cache.size(), 3u);
  for (const int key : {1, 3, 4}) ask(key);
  EXPECT_EQ(made, 4);
  ask(2);
  EXPECT_EQ(made, 5);
  for (int key = 0; key < 1000; ++key) ask(key);
  EXPECT_EQ(cache.size(), 3u);
}

TEST(LruCache, WhatLeavesLivesOnWithItsUsers) {
  Cache cache(1);
  const std::shared_ptr<const int> kept = cache.find(1, [] { return make(5); });
  const std::weak_ptr<const int> other = cache.find(2, [] { return make(6); });
  EXPECT_EQ(*kept, 5);
  EXPECT_FALSE(other.expired());
  cache.find(3, [] { return make(7); });
  EXPECT_TRUE(other.expired());
}

TEST(LruCache, TwoAskersOfOneKeyGetOneValueThatIsMadeOnce) {
  Cache cache(8);
  std::atomic<int> made{0};
  std::promise<void> begun, go_on;
  const auto first = std::async(std::launch::async, [&] {
    return cache.find(1, [&] {
      ++made;
      begun.set_value();
      go_on.get_future().wait();
      return make(1);
    });
  });
  begun.get_future().wait();
  // Another key does not wait for the one that is being made.
  EXPECT_EQ(*cache.find(2, [] { return make(2); }), 2);
  auto second = std::async(std::launch::async, [&] {
    return cache.find(1, [&] {
      ++made;
      return make(3);
    });
  });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  go_on.set_value();
  const std::shared_ptr<const int> value = second.get();
  EXPECT_EQ(*value, 1);
  EXPECT_EQ(made, 1);
}

TEST(LruCache, WhatCouldNotBeMadeIsMadeAnew) {
  Cache cache(2);
  EXPECT_THROW(cache.find(1, []() -> std::shared_ptr<const int> { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(*cache.find(1, [] { return make(4); }), 4);
}

TEST(LruCache, ManyAskersOfManyKeys) {
  LruCache<int, const int> cache(5);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5000; ++i) {
        const int key = (i * 7 + thread * 3) % 11;
        if (*cache.find(key, [&] { return make(key); }) != key) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.size(), 5u);
}

}  // namespace
}  // namespace transom::cpu
