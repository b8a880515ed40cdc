// SPDX-License-Identifier: Apache-2.0
// A thousand ranks meet at one store: what rank 0 does at the start of a run, with threads in the place of processes,
// and processes that do nothing but join.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/memory/resident_memory.h"
#include "runtime/device/device.h"
#include "runtime/distributed/process_group.h"
#include "runtime/distributed/store.h"
#include "support/message.h"
#include "support/ranks.h"

namespace transom {
namespace {

constexpr int64_t kMany = 1024;

TEST(Join, OfAThousandRanksTakesSeconds) {
  allow_files(2 * kMany + 256);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * kMany + 64) GTEST_SKIP() << "at most " << files.rlim_cur << " files";
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  const Clock::time_point began = Clock::now();
  const StoreOptions options{.timeout = 120};
  const uint16_t port = test::free_port();
  const auto launch = [&](int64_t rank) {
    return Launch{.rank = rank, .ranks = kMany, .master_address = "127.0.0.1", .master_port = port, .job = "many"};
  };
  std::vector<std::string> messages(kMany);
  double joined = 0;
  {
    const StoreServer server(launch(0), options);
    std::vector<int64_t> all(kMany);
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < kMany; ++rank)
      threads.emplace_back([&, rank] {
        messages[static_cast<size_t>(rank)] = test::message_of([&] {
          StoreClient client(launch(rank), options);
          if (rank == 0) joined = std::chrono::duration<double>(Clock::now() - began).count();
          // As ProcessGroup does: the kinds of devices, the id of a communicator from rank 0, and addresses of gloo, of
          // ranks that differ by powers of two.
          EXPECT_EQ(client.all_gather("cpu").size(), static_cast<size_t>(kMany));
          const std::vector<std::string> ids(kMany, rank == 0 ? std::string(256, 'i') : "");
          EXPECT_EQ(client.exchange_among(all, "all/id", ids)[0], std::string(256, 'i'));
          std::vector<std::string> addresses(kMany);
          for (int64_t distance = 1; distance < kMany; distance *= 2)
            for (const int64_t other : {(rank + distance) % kMany, (rank + kMany - distance) % kMany})
              addresses[static_cast<size_t>(other)] = std::string(256, static_cast<char>('a' + rank % 26));
          const auto met = client.exchange_among(all, "all/0", addresses);
          for (size_t other = 0; other < met.size(); ++other)
            EXPECT_EQ(met[other],
                      addresses[other].empty() ? "" : std::string(256, static_cast<char>('a' + other % 26)));
          client.all_gather("");
          client.leave();
        });
      });
    for (std::thread& thread : threads) thread.join();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const long grown = peak() - before;
  for (const std::string& message : messages) ASSERT_EQ(message, "");
  std::printf("%lld ranks: joined after %.2f s, through after %.2f s, %ld MiB more\n", static_cast<long long>(kMany),
              joined, seconds, grown / 1024);
#if !defined(__SANITIZE_THREAD__)  // which keeps much of each thread
  EXPECT_LT(grown, 1 << 20);
#endif
  EXPECT_LT(seconds, 10);
}

struct Joined {
  double seconds = 0;
  int64_t grown = 0;  // bytes
};

// In a process of its own: rank 0 writes to `report`.
int join_as(const Launch& launch, Clock::time_point began, int report) {
  const int64_t before = resident_bytes();
  try {
    ProcessGroup group(launch, {.backend = "gloo", .timeout = 120}, default_device());
    group.barrier();
    const Joined joined{std::chrono::duration<double>(Clock::now() - began).count(), resident_peak_bytes() - before};
    if (launch.rank == 0 && ::write(report, &joined, sizeof joined) != sizeof joined) return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %lld: %s\n", static_cast<long long>(launch.rank), error.what());
    return 2;
  }
  return 0;
}

// With connections between the ranks, each a process that is made from one that has the device.
TEST(Join, OfProcessesConnectsThem) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const char* asked = std::getenv("TRANSOM_JOIN_RANKS");
  const int64_t ranks = asked ? std::atoll(asked) : 96;  // more than are connected each with each
  const uint16_t port = test::free_port();
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t maker = ::fork();
  if (maker == 0) {
    ::setenv("TRANSOM_NUM_THREADS", "1", 1);
    set_device("cpu");
    default_device();
    const Clock::time_point began = Clock::now();
    std::vector<pid_t> made;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Launch launch{.rank = rank,
                          .ranks = ranks,
                          .local_rank = rank,
                          .local_ranks = ranks,
                          .master_address = "127.0.0.1",
                          .master_port = port,
                          .job = "processes"};
      const pid_t process = ::fork();
      if (process == 0) ::_exit(join_as(launch, began, report[1]));
      made.push_back(process);
    }
    int failed = 0;
    for (const pid_t process : made) {
      int status = 1;
      if (process < 0 || ::waitpid(process, &status, 0) != process || status != 0) ++failed;
    }
    ::_exit(failed > 0 ? 1 : 0);
  }
  ::close(report[1]);
  Joined joined;
  EXPECT_EQ(::read(report[0], &joined, sizeof joined), static_cast<ssize_t>(sizeof joined));
  ::close(report[0]);
  int status = 1;
  ASSERT_EQ(::waitpid(maker, &status, 0), maker);
  EXPECT_EQ(status, 0);
  std::printf("%lld processes: joined and through a barrier after %.2f s, rank 0 has %lld MiB more\n",
              static_cast<long long>(ranks), joined.seconds, static_cast<long long>(joined.grown >> 20));
  EXPECT_LT(joined.grown, int64_t{1} << 30);
}

}  // namespace
}  // namespace transom
