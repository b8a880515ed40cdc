// SPDX-License-Identifier: Apache-2.0
// Reductions of the cpu's ranks over a transport that counts bytes, with threads in the place of processes.
#include "cpu/collectives/reductions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "cpu/device/types.h"

namespace transom::cpu {
namespace {

// Where messages lie until they are taken.
struct Wire {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<size_t, size_t>, std::deque<std::vector<std::byte>>> messages;  // by sender and receiver
  std::atomic<size_t> bytes{0};
};

class Counted : public Transport {
 public:
  Counted(Wire& wire, size_t rank) : wire_(wire), rank_(rank) {}
  bool reaches_all() const override { return true; }
  void all_reduce(void*, size_t, transom_dtype, transom_reduction) override { FAIL(); }
  void all_gather(const void*, void*, size_t) override { FAIL(); }
  void broadcast(void*, size_t, uint32_t) override { FAIL(); }
  void abort() override {}
  void exchange(std::span<const Message> messages) override {
    for (const Message& message : messages)
      if (message.sends) {
        const std::lock_guard lock(wire_.mutex);
        wire_.messages[{rank_, message.peer}].emplace_back(message.data, message.data + message.bytes);
        wire_.bytes += message.bytes;
        wire_.changed.notify_all();
      }
    for (const Message& message : messages)
      if (!message.sends) {
        std::unique_lock lock(wire_.mutex);
        auto& queue = wire_.messages[{message.peer, rank_}];
        wire_.changed.wait(lock, [&] { return !queue.empty(); });
        EXPECT_EQ(queue.front().size(), message.bytes);
        std::memcpy(message.data, queue.front().data(), message.bytes);
        queue.pop_front();
      }
  }

 private:
  Wire& wire_;
  size_t rank_;
};

// The bytes that all ranks send.
template <typename Body>
size_t run(size_t ranks, Body&& body) {
  Wire wire;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Counted transport(wire, rank);
      body(transport, Place{rank, ranks});
    });
  for (std::thread& thread : threads) thread.join();
  return wire.bytes;
}

// Sums of these show their order in the last bits.
float reduced_value(size_t rank, size_t i) { return 1.0f / static_cast<float>(3 + 7 * rank + i) * (rank % 2 ? -1 : 1); }

template <typename T>
void expect_sums(transom_dtype dtype) {
  for (const size_t ranks : {2, 3, 4})
    for (const size_t count : {size_t{1}, size_t{12}, size_t{4099}}) {
      std::vector<T> expected;
      for (size_t i = 0; i < count * ranks; ++i) {
        float sum = static_cast<float>(T(reduced_value(0, i)));
        for (size_t r = 1; r < ranks; ++r) sum += static_cast<float>(T(reduced_value(r, i)));
        expected.push_back(T(sum));
      }
      const auto same = [&](const T* found, size_t begin, size_t n) {
        return std::memcmp(found, expected.data() + begin, n * sizeof(T)) == 0;
      };
      const auto input = [&](size_t rank) {
        std::vector<T> values;
        for (size_t i = 0; i < count * ranks; ++i) values.push_back(T(reduced_value(rank, i)));
        return values;
      };
      const auto bytes_of = [](std::vector<T>& values) { return reinterpret_cast<std::byte*>(values.data()); };
      // As they are, and no more often than needed.
      EXPECT_EQ(run(ranks,
                    [&](Transport& transport, Place place) {
                      std::vector<T> all = input(place.rank);
                      reduce_to_all(transport, place, bytes_of(all), all.size(), dtype, TRANSOM_SUM);
                      EXPECT_TRUE(same(all.data(), 0, all.size())) << ranks << " ranks, " << count;
                    }),
                2 * (ranks - 1) * count * ranks * sizeof(T));
      EXPECT_EQ(run(ranks,
                    [&](Transport& transport, Place place) {
                      std::vector<T> from = input(place.rank), to(count);
                      reduce_to_parts(transport, place, bytes_of(from), bytes_of(to), count, dtype, TRANSOM_SUM);
                      EXPECT_TRUE(same(to.data(), place.rank * count, count)) << ranks << " ranks, " << count;
                      // In place as well.
                      T* own = from.data() + place.rank * count;
                      reduce_to_parts(transport, place, bytes_of(from), reinterpret_cast<std::byte*>(own), count, dtype,
                                      TRANSOM_SUM);
                      EXPECT_TRUE(same(own, place.rank * count, count));
                    }),
                2 * (ranks - 1) * count * ranks * sizeof(T));
    }
}

TEST(Reductions, OfF32HaveOneOrder) { expect_sums<float>(TRANSOM_FLOAT32); }
TEST(Reductions, OfBf16TravelAsBf16) { expect_sums<BFloat16>(TRANSOM_BFLOAT16); }
TEST(Reductions, OfF16TravelAsF16) { expect_sums<Float16>(TRANSOM_FLOAT16); }

// Sizes below the number of ranks, where some parts are empty; the other reductions; a NaN stays.
TEST(Reductions, TakeAnySizeAndKind) {
  for (const size_t count : {0, 1, 2, 5, 7}) {
    run(4, [&](Transport& transport, Place place) {
      std::vector<int32_t> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>((place.rank * 5 + i * 3) % 7);
      std::vector<int32_t> most(count), sum(count);
      for (size_t i = 0; i < count; ++i)
        for (size_t r = 0; r < 4; ++r) {
          const auto value = static_cast<int32_t>((r * 5 + i * 3) % 7);
          most[i] = std::max(most[i], value);
          sum[i] += value;
        }
      std::vector<int32_t> found = values;
      reduce_to_all(transport, place, reinterpret_cast<std::byte*>(found.data()), count, TRANSOM_INT32, TRANSOM_SUM);
      EXPECT_EQ(found, sum);
      reduce_to_all(transport, place, reinterpret_cast<std::byte*>(values.data()), count, TRANSOM_INT32, TRANSOM_MAX);
      EXPECT_EQ(values, most);
    });
  }
  run(3, [](Transport& transport, Place place) {
    double value = place.rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
    reduce_to_all(transport, place, reinterpret_cast<std::byte*>(&value), 1, TRANSOM_FLOAT64, TRANSOM_MIN);
    EXPECT_NE(value, value);
  });
}

}  // namespace
}  // namespace transom::cpu
