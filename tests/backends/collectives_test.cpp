// SPDX-License-Identifier: Apache-2.0
// Four ranks of the cpu device in one process, each a thread: messages, all_to_all and groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "backends/harness.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

constexpr uint32_t kRanks = 4;
constexpr size_t kCount = 3;

struct Rank {
  // A device of its own; the harness's plugin is shared.
  struct Opened {
    const transom_plugin& table = Plugin::cpu().table;
    transom_device* device = nullptr;
    transom_stream* stream = nullptr;
  } plugin;
  uint32_t rank = 0;
  transom_communicator* group = nullptr;
  transom_error error{};
  std::vector<transom_buffer*> buffers;

  Rank() {
    done(plugin.table.device_open(0, &plugin.device, &error));
    done(plugin.table.stream_create(plugin.device, &plugin.stream, &error));
  }
  void done(transom_status status) {
    if (status != TRANSOM_OK) throw std::runtime_error(error.text);
  }
  transom_binding memory(const std::vector<float>& values) {
    transom_binding binding{};
    done(plugin.table.buffer_allocate(plugin.device, values.size() * sizeof(float), &binding.buffer, &error));
    buffers.push_back(binding.buffer);
    done(plugin.table.copy_to_device(plugin.stream, values.data(), binding, values.size() * sizeof(float), &error));
    return binding;
  }
  std::vector<float> read(transom_binding binding, size_t count) {
    std::vector<float> values(count);
    done(plugin.table.copy_to_host(plugin.stream, binding, values.data(), count * sizeof(float), &error));
    return values;
  }
  ~Rank() {
    if (group) plugin.table.communicator_destroy(group);
    for (transom_buffer* buffer : buffers) plugin.table.buffer_free(buffer);
    plugin.table.stream_destroy(plugin.stream);
    plugin.table.device_close(plugin.device);
  }
};

// Element i of what rank r holds.
float value_of(uint32_t r, size_t i) { return static_cast<float>(100 * r + i); }

std::vector<float> values_of(uint32_t rank, size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(value_of(rank, i));
  return values;
}

class CpuCollectives : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(test::build_folder() + "/lib/transom/transom_gloo.so"))
      GTEST_SKIP() << "gloo is not here";
  }
  // body(rank) on each of them; the first failure is the test's.
  void run(const std::function<void(Rank&)>& body, uint32_t ranks = kRanks) {
    unsigned char id[256] = "gloo";
    transom_error error{};
    ASSERT_EQ(Plugin::cpu().table.communicator_id(id, &error), TRANSOM_OK) << error.text;
    std::mutex mutex;
    std::string failures;
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        try {
          Rank rank;
          rank.rank = r;
          rank.done(rank.plugin.table.communicator_create(rank.plugin.device, id, r, ranks, &rank.group, &rank.error));
          body(rank);
          rank.done(rank.plugin.table.stream_synchronize(rank.plugin.stream, &rank.error));
        } catch (const std::exception& exception) {
          const std::lock_guard lock(mutex);
          failures += "rank " + std::to_string(r) + ": " + exception.what() + "\n";
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, "");
  }
};

TEST_F(CpuCollectives, AllToAllTurnsRanksAndParts) {
  run([](Rank& r) {
    const transom_binding from = r.memory(values_of(r.rank, kRanks * kCount)),
                          to = r.memory(std::vector<float>(kRanks * kCount));
    r.done(r.plugin.table.all_to_all(r.group, r.plugin.stream, from, to, kCount, TRANSOM_FLOAT32, &r.error));
    std::vector<float> expected;
    for (uint32_t other = 0; other < kRanks; ++other)
      for (size_t i = 0; i < kCount; ++i) expected.push_back(value_of(other, r.rank * kCount + i));
    EXPECT_EQ(r.read(to, expected.size()), expected);
    // In place is refused, and the group works on.
    EXPECT_EQ(r.plugin.table.all_to_all(r.group, r.plugin.stream, from, from, kCount, TRANSOM_FLOAT32, &r.error),
              TRANSOM_INVALID_ARGUMENT);
  });
}

TEST_F(CpuCollectives, MessagesOfAGroupMoveAtOnceAndInOrder) {
  constexpr size_t kLong = 1 << 18;  // more than a connection takes up by itself
  run([](Rank& r) {
    const uint32_t next = (r.rank + 1) % kRanks, previous = (r.rank + kRanks - 1) % kRanks;
    const transom_binding from = r.memory(values_of(r.rank, kLong)), to = r.memory(std::vector<float>(kLong));
    const size_t half = kLong / 2;
    const auto behind = [&](transom_binding binding) { return transom_binding{binding.buffer, half * sizeof(float)}; };
    const transom_plugin& t = r.plugin.table;
    r.done(t.message_group_begin(r.group, &r.error));
    r.done(t.send(r.group, r.plugin.stream, from, half, TRANSOM_FLOAT32, next, &r.error));
    r.done(t.send(r.group, r.plugin.stream, behind(from), half, TRANSOM_FLOAT32, next, &r.error));
    r.done(t.receive(r.group, r.plugin.stream, to, half, TRANSOM_FLOAT32, previous, &r.error));
    r.done(t.receive(r.group, r.plugin.stream, behind(to), half, TRANSOM_FLOAT32, previous, &r.error));
    r.done(t.message_group_end(r.group, &r.error));
    EXPECT_EQ(r.read(to, kLong), values_of(previous, kLong));
    EXPECT_EQ(t.message_group_end(r.group, &r.error), TRANSOM_INVALID_ARGUMENT) << "none is open";
    EXPECT_EQ(t.send(r.group, r.plugin.stream, from, 1, TRANSOM_FLOAT32, r.rank, &r.error), TRANSOM_INVALID_ARGUMENT)
        << "to itself";
  });
}

TEST_F(CpuCollectives, SingleMessagesMeetAcrossACollective) {
  run([](Rank& r) {
    const transom_plugin& t = r.plugin.table;
    const transom_binding from = r.memory(values_of(r.rank, kCount)), to = r.memory(std::vector<float>(kCount)),
                          one = r.memory({1});
    if (r.rank == 2) r.done(t.send(r.group, r.plugin.stream, from, kCount, TRANSOM_FLOAT32, 0, &r.error));
    if (r.rank == 0) r.done(t.receive(r.group, r.plugin.stream, to, kCount, TRANSOM_FLOAT32, 2, &r.error));
    r.done(t.all_reduce(r.group, r.plugin.stream, one, one, 1, TRANSOM_FLOAT32, TRANSOM_SUM, &r.error));
    EXPECT_EQ(r.read(one, 1), std::vector<float>{kRanks});
    if (r.rank == 0) {
      EXPECT_EQ(r.read(to, kCount), values_of(2, kCount));
    }
  });
}

// Groups: the even and the odd ranks in falling order, each with an id of its own, while the group of all works on.
TEST_F(CpuCollectives, GroupsOfSomeRanksHaveIdsOfTheirOwn) {
  unsigned char ids[2][256] = {"gloo", "gloo"};
  transom_error error{};
  for (auto& id : ids) ASSERT_EQ(Plugin::cpu().table.communicator_id(id, &error), TRANSOM_OK) << error.text;
  run([&](Rank& r) {
    const transom_plugin& t = r.plugin.table;
    transom_communicator* group = nullptr;
    const uint32_t place = r.rank < 2 ? 1 : 0, other = (r.rank + 2) % kRanks;
    r.done(t.communicator_create(r.plugin.device, ids[r.rank % 2], place, 2, &group, &r.error));
    const transom_binding from = r.memory({value_of(r.rank, 0)}), to = r.memory(std::vector<float>(2)),
                          one = r.memory({1});
    r.done(t.all_gather(group, r.plugin.stream, from, to, 1, TRANSOM_FLOAT32, &r.error));
    r.done(t.all_reduce(r.group, r.plugin.stream, one, one, 1, TRANSOM_FLOAT32, TRANSOM_SUM, &r.error));
    EXPECT_EQ(r.read(to, 2),
              (std::vector<float>{value_of(std::max(r.rank, other), 0), value_of(std::min(r.rank, other), 0)}));
    EXPECT_EQ(r.read(one, 1), std::vector<float>{kRanks});
    t.communicator_destroy(group);
  });
}

// The thread of a group that is given up may still be in the middle of a sum when its memory is freed.
TEST_F(CpuCollectives, MemoryOfAGroupThatWasGivenUpIsNotHandedOutWhileItIsUsed) {
  constexpr size_t kLong = 1 << 20;
  std::promise<void> given_up;
  const std::shared_future<void> wait_for_it = given_up.get_future().share();
  const auto fresh_stream = [](Rank& r) {  // the old one fails for ever
    r.plugin.table.stream_destroy(r.plugin.stream);
    r.done(r.plugin.table.stream_create(r.plugin.device, &r.plugin.stream, &r.error));
  };
  run(
      [&](Rank& r) {
        const transom_plugin& t = r.plugin.table;
        const transom_binding sum = r.memory(std::vector<float>(kLong, 1));
        if (r.rank == 1) wait_for_it.wait();
        r.done(t.all_reduce(r.group, r.plugin.stream, sum, sum, kLong, TRANSOM_FLOAT32, TRANSOM_SUM, &r.error));
        if (r.rank == 1) {
          EXPECT_EQ(t.stream_synchronize(r.plugin.stream, &r.error), TRANSOM_DEVICE_LOST);
          return fresh_stream(r);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the thread has begun, and waits for rank 1
        t.communicator_abort(r.group);
        EXPECT_EQ(t.stream_synchronize(r.plugin.stream, &r.error), TRANSOM_DEVICE_LOST);
        fresh_stream(r);
        r.buffers.clear();
        t.buffer_free(sum.buffer);
        const std::vector<float> others(kLong, 7);
        const transom_binding next = r.memory(others);
        given_up.set_value();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_EQ(r.read(next, kLong), others);
      },
      2);
}

}  // namespace
}  // namespace transom::backend_test
