// SPDX-License-Identifier: Apache-2.0
// Collectives between processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "synapse/harness.h"

namespace synapse_tests {
namespace {

// One rank: device, stream, communicator.
struct Rank {
  int number, count;
  hcclComm_t comm = nullptr;
  synStreamHandle stream = nullptr;

  void begin(const hcclUniqueId& id) {
    synDeviceId device;
    ASSERT_EQ(SYN(synDeviceAcquireByModuleId)(&device, static_cast<synModuleId>(number)), 0);
    ASSERT_EQ(SYN(hcclCommInitRank)(&comm, count, id, number), 0) << SYN(hcclGetLastErrorMessage)();
    ASSERT_EQ(SYN(synStreamCreateGeneric)(&stream, 0, 0), 0);
  }
  uint64_t upload(const std::vector<float>& numbers) {
    uint64_t address = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, numbers.size() * 4, 0, 0, &address), 0);
    EXPECT_EQ(SYN(synHostMap)(0, numbers.size() * 4, numbers.data()), 0);
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, reinterpret_cast<uint64_t>(numbers.data()), numbers.size() * 4, address,
                                   HOST_TO_DRAM),
              0);
    EXPECT_EQ(SYN(synStreamSynchronize)(stream), 0);
    EXPECT_EQ(SYN(synHostUnmap)(0, numbers.data()), 0);
    return address;
  }
  std::vector<float> download(uint64_t address, size_t count_of_numbers) {
    std::vector<float> numbers(count_of_numbers);
    EXPECT_EQ(SYN(synHostMap)(0, count_of_numbers * 4, numbers.data()), 0);
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, address, count_of_numbers * 4, reinterpret_cast<uint64_t>(numbers.data()),
                                   DRAM_TO_HOST),
              0);
    EXPECT_EQ(SYN(synStreamSynchronize)(stream), 0);
    EXPECT_EQ(SYN(synHostUnmap)(0, numbers.data()), 0);
    return numbers;
  }
  void end() {
    EXPECT_EQ(SYN(synStreamDestroy)(stream), 0);
    EXPECT_EQ(SYN(hcclCommDestroy)(comm), 0);
    EXPECT_EQ(SYN(synDeviceRelease)(0), 0);
    EXPECT_EQ(SYN(synDestroy)(), 0);
  }
};

void* device(uint64_t address) { return reinterpret_cast<void*>(address); }

// Runs `body` in `count` processes that share a communicator; true if all expectations hold in all of them.
bool in_ranks(int count, Environment environment, const std::function<void(Rank&)>& body) {
  environment["TRANSOM_SYNAPSE_DEVICES"] = std::to_string(count);
  int to_all[2];
  EXPECT_EQ(pipe(to_all), 0);
  std::vector<pid_t> children;
  for (int number = 0; number < count; ++number) {
    const pid_t child = fork();
    if (child == 0) {
      for (const auto& [name, text] : environment) setenv(name.c_str(), text.c_str(), 1);
      alarm(60);
      Rank rank{number, count};
      EXPECT_EQ(SYN(synInitialize)(), 0);
      hcclUniqueId id;
      if (number == 0) {
        synDeviceId acquired;
        EXPECT_EQ(SYN(synDeviceAcquireByModuleId)(&acquired, 0), 0);
        EXPECT_EQ(SYN(hcclGetUniqueId)(&id), 0);
        EXPECT_EQ(SYN(synDeviceRelease)(0), 0);
        for (int i = 1; i < count; ++i) EXPECT_EQ(write(to_all[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
      } else {
        EXPECT_EQ(read(to_all[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
      }
      rank.begin(id);
      if (!testing::Test::HasFailure()) body(rank);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  close(to_all[0]);
  close(to_all[1]);
  bool fine = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    fine = fine && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return fine;
}

TEST(SynapseCollectives, EachComputesWhatItSays) {
  for (const int count : {1, 2, 4}) {
    EXPECT_TRUE(in_ranks(count, {{"TRANSOM_SYNAPSE_DEFER", count == 4 ? "1" : "0"}}, [](Rank& rank) {
      const auto n = static_cast<size_t>(rank.count), me = static_cast<size_t>(rank.number);
      const size_t size = 3 * n;
      std::vector<float> own;
      for (size_t i = 0; i < size; ++i) own.push_back(static_cast<float>(100 * me + i));
      const uint64_t from = rank.upload(own), to = rank.upload(std::vector<float>(size * n, -1));
      const float all = static_cast<float>(100 * n * (n - 1) / 2);
      ASSERT_EQ(SYN(hcclAllReduce)(device(from), device(to), size, hcclFloat32, hcclSum, rank.comm, rank.stream), 0);
      std::vector<float> found = rank.download(to, size);
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(found[i], all + static_cast<float>(n * i));
      ASSERT_EQ(SYN(hcclAllReduce)(device(from), device(to), size, hcclFloat32, hcclMax, rank.comm, rank.stream), 0);
      EXPECT_EQ(rank.download(to, size)[1], static_cast<float>(100 * (n - 1) + 1));
      ASSERT_EQ(SYN(hcclAllReduce)(device(from), device(to), size, hcclFloat32, hcclAvg, rank.comm, rank.stream), 0);
      EXPECT_EQ(rank.download(to, size)[1], (all + static_cast<float>(n)) / static_cast<float>(n));
      ASSERT_EQ(SYN(hcclReduceScatter)(device(from), device(to), 3, hcclFloat32, hcclSum, rank.comm, rank.stream), 0);
      EXPECT_EQ(rank.download(to, 3)[2], all + static_cast<float>(n * (3 * me + 2)));
      ASSERT_EQ(SYN(hcclAllGather)(device(from), device(to), size, hcclFloat32, rank.comm, rank.stream), 0);
      found = rank.download(to, size * n);
      for (size_t i = 0; i < size * n; ++i) EXPECT_EQ(found[i], static_cast<float>(100 * (i / size) + i % size));
      ASSERT_EQ(SYN(hcclAlltoAll)(device(from), device(to), size, hcclFloat32, rank.comm, rank.stream), 0);
      found = rank.download(to, size);
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(found[i], static_cast<float>(100 * (i / 3) + 3 * me + i % 3));
      const int last = rank.count - 1;
      ASSERT_EQ(SYN(hcclReduce)(device(from), device(to), size, hcclFloat32, hcclSum, last, rank.comm, rank.stream), 0);
      if (rank.number == last) {
        EXPECT_EQ(rank.download(to, 1)[0], all);
      }
      ASSERT_EQ(SYN(hcclBroadcast)(device(from), device(to), size, hcclFloat32, last, rank.comm, rank.stream), 0);
      EXPECT_EQ(rank.download(to, size)[2], static_cast<float>(100 * (n - 1) + 2));
      ASSERT_EQ(SYN(hcclGroupStart)(), 0);  // a ring
      ASSERT_EQ(SYN(hcclSend)(device(from), size, hcclFloat32, static_cast<int>((me + 1) % n), rank.comm, rank.stream),
                0);
      ASSERT_EQ(
          SYN(hcclRecv)(device(to), size, hcclFloat32, static_cast<int>((me + n - 1) % n), rank.comm, rank.stream), 0);
      ASSERT_EQ(SYN(hcclGroupEnd)(), 0);
      EXPECT_EQ(rank.download(to, size)[1], static_cast<float>(100 * ((me + n - 1) % n) + 1));
      ASSERT_EQ(SYN(hcclBarrier)(rank.comm, rank.stream), 0);
      EXPECT_EQ(SYN(synStreamSynchronize)(rank.stream), 0);
      EXPECT_EQ(SYN(synDeviceFree)(0, from, 0), 0);
      EXPECT_EQ(SYN(synDeviceFree)(0, to, 0), 0);
      rank.end();
    })) << count;
  }
}

// In a server over all ports, between servers each card's part over its own; with values or without.
TEST(SynapseCollectives, TakeTheTimeOfTheirLinks) {
  constexpr double kInside = 262.5e9, kBetween = 37.5e9, kBytes = 4 << 20;
  struct Case {
    int ranks;
    const char* values;
    double all_reduce, all_gather, far_message;
  };
  const double inside = 7.0 / 8 * kBytes / kInside, between = 1.0 / 2 * kBytes / 8 / kBetween;
  for (const Case& test :
       {Case{8, "1", 2 * inside, inside, kBytes / kInside}, Case{8, "0", 2 * inside, inside, kBytes / kInside},
        Case{16, "0", 2 * (inside + between), inside + between, kBytes / kBetween}})
    EXPECT_TRUE(in_ranks(test.ranks, {{"TRANSOM_SYNAPSE_VALUES", test.values}}, [&](Rank& rank) {
      const size_t count = static_cast<size_t>(kBytes) / 4, n = static_cast<size_t>(rank.count);
      uint64_t from = 0, to = 0;
      ASSERT_EQ(SYN(synDeviceMalloc)(0, count * 4, 0, 0, &from), 0);
      ASSERT_EQ(SYN(synDeviceMalloc)(0, count * 4, 0, 0, &to), 0);
      const auto takes = [&](double expected, const auto& work) {
        synEventHandle start = nullptr, end = nullptr;
        EXPECT_EQ(SYN(synEventCreate)(&start, 0, 1), 0);
        EXPECT_EQ(SYN(synEventCreate)(&end, 0, 1), 0);
        EXPECT_EQ(SYN(synEventRecord)(start, rank.stream), 0);
        EXPECT_EQ(work(), 0);
        EXPECT_EQ(SYN(synEventRecord)(end, rank.stream), 0);
        EXPECT_EQ(SYN(synEventSynchronize)(end), 0);
        uint64_t nanoseconds = 0;
        EXPECT_EQ(SYN(synEventElapsedTime)(&nanoseconds, start, end), 0);
        EXPECT_NEAR(static_cast<double>(nanoseconds), expected * 1e9, 2) << rank.number << " of " << n;
        EXPECT_EQ(SYN(synEventDestroy)(start), 0);
        EXPECT_EQ(SYN(synEventDestroy)(end), 0);
      };
      takes(test.all_reduce, [&] {
        return SYN(hcclAllReduce)(device(from), device(to), count, hcclFloat32, hcclSum, rank.comm, rank.stream);
      });
      takes(test.all_gather, [&] {
        return SYN(hcclAllGather)(device(from), device(to), count / n, hcclFloat32, rank.comm, rank.stream);
      });
      const int last = rank.count - 1;
      if (rank.number == 0)
        takes(test.far_message,
              [&] { return SYN(hcclSend)(device(from), count, hcclFloat32, last, rank.comm, rank.stream); });
      if (rank.number == last)
        takes(test.far_message,
              [&] { return SYN(hcclRecv)(device(to), count, hcclFloat32, 0, rank.comm, rank.stream); });
      EXPECT_EQ(SYN(synStreamSynchronize)(rank.stream), 0);
      EXPECT_EQ(SYN(synDeviceFree)(0, from, 0), 0);
      EXPECT_EQ(SYN(synDeviceFree)(0, to, 0), 0);
      rank.end();
    })) << test.ranks;
}

TEST(SynapseCollectives, ADeadRankEndsTheOthersWithAnError) {
  // The first rank ends by itself; the test looks at the others only.
  EXPECT_TRUE(in_ranks(3, {{"TRANSOM_SYNAPSE_TIMEOUT", "20"}}, [](Rank& rank) {
    const uint64_t address = rank.upload(std::vector<float>(64, 1));
    if (rank.number == 0) _exit(0);
    EXPECT_EQ(SYN(hcclAllReduce)(device(address), device(address), 64, hcclFloat32, hcclSum, rank.comm, rank.stream),
              0);
    EXPECT_EQ(SYN(synStreamSynchronize)(rank.stream), synFailedHccl);
    hcclResult_t error = 0;
    EXPECT_EQ(SYN(hcclCommGetAsyncError)(rank.comm, &error), 0);
    EXPECT_NE(error, hcclSuccess);
    EXPECT_NE(std::string(SYN(hcclCommGetAsyncErrorMessage)(rank.comm)), "");
  }));
}

TEST(SynapseCollectives, OtherCallsThanTheOthersAreFound) {
  EXPECT_TRUE(in_ranks(2, {{"TRANSOM_SYNAPSE_TIMEOUT", "20"}}, [](Rank& rank) {
    const uint64_t address = rank.upload(std::vector<float>(64, 1));
    const size_t size = rank.number == 0 ? 64 : 32;
    EXPECT_EQ(SYN(hcclAllReduce)(device(address), device(address), size, hcclFloat32, hcclSum, rank.comm, rank.stream),
              0);
    EXPECT_EQ(SYN(synStreamSynchronize)(rank.stream), synFailedHccl);
  }));
}

TEST(SynapseCollectives, RulesOfTheArguments) {
  EXPECT_TRUE(in_ranks(1, {}, [](Rank& rank) {
    const uint64_t address = rank.upload(std::vector<float>(64, 1));
    void* buffer = device(address);
    EXPECT_EQ(SYN(hcclAllReduce)(buffer, buffer, 64, hcclInt32, hcclSum, rank.comm, rank.stream), hcclInvalidArgument);
    EXPECT_EQ(SYN(hcclAllReduce)(buffer, buffer, 65, hcclFloat32, hcclSum, rank.comm, rank.stream),
              hcclInvalidArgument);
    EXPECT_EQ(SYN(hcclAllReduce)(buffer, buffer, 64, hcclFloat32, hcclSum, nullptr, rank.stream), hcclInvalidArgument);
    EXPECT_EQ(SYN(hcclSend)(buffer, 64, hcclFloat32, 0, rank.comm, rank.stream), hcclInvalidUsage);
    EXPECT_EQ(SYN(hcclGroupEnd)(), hcclInvalidUsage);
    hcclUniqueId id = {};
    id.length = 3;
    hcclComm_t other = nullptr;
    EXPECT_EQ(SYN(hcclCommInitRank)(&other, 1, id, 0), hcclInvalidArgument);
    EXPECT_EQ(SYN(hcclCommInitRank)(&other, 1, id, 1), hcclInvalidArgument);
  }));
}

}  // namespace
}  // namespace synapse_tests
