// SPDX-License-Identifier: Apache-2.0
// The libraries by which the cpu's processes reach each other.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cpu/collectives/transport.h"
#include "runtime/device/exchange.h"
#include "support/folders.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom::cpu {
namespace {

const TransportLibrary* library_of(const std::string& name) {
  void* file =
      ::dlopen((test::build_folder() + "/lib/transom/transom_" + name + ".so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!file) return nullptr;
  return reinterpret_cast<const TransportLibrary* (*)()>(::dlsym(file, "transom_transport"))();
}

using Id = std::array<unsigned char, 128>;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Ranks that are threads of this process tell each other over the host's exchange.
Exchange among_threads(const Id& id, uint32_t rank) {
  return [id, rank](const std::vector<Bytes>& parts) {
    unsigned char key[256] = {};
    std::copy(id.begin(), id.end(), key);
    std::vector<transom_bytes> mine;
    for (const Bytes& part : parts) mine.push_back({part.data(), part.size()});
    std::vector<Bytes> column(parts.size());
    transom_error error{};
    const auto take = [](void* context, uint32_t from, const void* data, size_t bytes) {
      const char* begin = static_cast<const char*>(data);
      static_cast<std::vector<Bytes>*>(context)->at(from).assign(begin, begin + bytes);
    };
    if (exchange_of_host(key, rank, static_cast<uint32_t>(parts.size()), mine.data(), take, &column, &error) !=
        TRANSOM_OK)
      throw std::runtime_error(error.text);
    return column;
  };
}

// What the body throws; empty if nothing.
template <typename Body>
std::string failure_of(Body&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

class Gloo : public testing::Test {
 protected:
  void SetUp() override {
    library_ = library_of("gloo");
    if (!library_) GTEST_SKIP() << "built without gloo";
  }
  std::unique_ptr<Transport> join(const Id& id, uint32_t rank, uint32_t ranks) const {
    return std::unique_ptr<Transport>(library_->join(id.data(), id.size(), rank, ranks, among_threads(id, rank)));
  }
  Id make_id(uint32_t timeout) const {
    Id id{};
    library_->make_id({.address = "127.0.0.1", .timeout = timeout}, id.data(), id.size());
    return id;
  }
  const TransportLibrary* library_ = nullptr;
};

// More ranks than are connected each with each.
TEST_F(Gloo, ReachesManyRanksOverFewConnections) {
  constexpr uint32_t kRanks = 70, kRoot = 41;
  const Id id = make_id(60);
  std::vector<std::string> messages(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      messages[rank] = failure_of([&] {
        const auto transport = join(id, rank, kRanks);
        std::vector<int32_t> sums(1000, static_cast<int32_t>(rank));
        transport->all_reduce(sums.data(), sums.size(), TRANSOM_INT32, TRANSOM_SUM);
        for (const int32_t sum : sums) ASSERT_EQ(sum, static_cast<int32_t>(kRanks * (kRanks - 1) / 2));
        std::vector<uint32_t> all(kRanks), root(3, rank);
        transport->all_gather(&rank, all.data(), sizeof rank);
        for (uint32_t other = 0; other < kRanks; ++other) ASSERT_EQ(all[other], other);
        transport->broadcast(root.data(), root.size() * sizeof(uint32_t), kRoot);
        ASSERT_EQ(root, std::vector<uint32_t>(3, kRoot));
        transport->all_reduce(sums.data(), 1, TRANSOM_INT32, TRANSOM_MAX);  // nobody leaves before all are through
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

// Large messages are read where they lie, small ones are sent; in both directions at once, among each other, and at
// every beat in the order of the calls.
TEST_F(Gloo, ExchangesMessagesOfAllSizes) {
  constexpr uint32_t kRanks = 3;
  const Id id = make_id(60);
  const std::vector<size_t> sizes{0, 1, 32767, 32768, 32769, 3, 1'000'003};
  const auto value = [](uint32_t from, uint32_t to, size_t i, size_t at) {
    return static_cast<std::byte>(from * 7 + to * 31 + i * 13 + at * 5 + at / 4096);
  };
  std::vector<std::string> messages(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      messages[rank] = failure_of([&] {
        const auto transport = join(id, rank, kRanks);
        for (int beat = 0; beat < 3; ++beat) {
          std::vector<std::vector<std::byte>> sent, received;
          std::vector<Message> all;
          for (uint32_t peer = 0; peer < kRanks; ++peer)
            for (size_t i = 0; peer != rank && i < sizes.size(); ++i) {
              std::vector<std::byte>& out = sent.emplace_back(sizes[i]);
              for (size_t at = 0; at < out.size(); ++at) out[at] = value(rank, peer, i + static_cast<size_t>(beat), at);
              all.push_back({out.data(), out.size(), peer, true});
              std::vector<std::byte>& in = received.emplace_back(sizes[i]);
              all.push_back({in.data(), in.size(), peer, false});
            }
          transport->exchange(all);
          size_t next = 0;
          for (uint32_t peer = 0; peer < kRanks; ++peer)
            for (size_t i = 0; peer != rank && i < sizes.size(); ++i) {
              const std::vector<std::byte>& in = received[next++];
              for (size_t at = 0; at < in.size(); ++at)
                ASSERT_EQ(in[at], value(peer, rank, i + static_cast<size_t>(beat), at))
                    << peer << ' ' << i << ' ' << at;
            }
          // In place, as all_gather may be.
          std::vector<std::byte> gathered(kRanks * sizes.back());
          for (size_t at = 0; at < sizes.back(); ++at) gathered[rank * sizes.back() + at] = value(rank, 9, 0, at);
          transport->all_gather(gathered.data() + rank * sizes.back(), gathered.data(), sizes.back());
          for (size_t at = 0; at < gathered.size(); ++at)
            ASSERT_EQ(gathered[at], value(static_cast<uint32_t>(at / sizes.back()), 9, 0, at % sizes.back())) << at;
        }
        float leaving = 0;
        transport->all_reduce(&leaving, 1, TRANSOM_FLOAT32, TRANSOM_SUM);  // nobody leaves before all are through
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

// More than wait to be read at one time, each way, in their order.
TEST_F(Gloo, ExchangesManyMessages) {
  constexpr uint32_t kMany = 300;
  const Id id = make_id(60);
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      messages[rank] = failure_of([&] {
        const auto transport = join(id, rank, 2);
        std::vector<uint32_t> sent(kMany), received(kMany);
        std::vector<Message> all;
        for (uint32_t i = 0; i < kMany; ++i) {
          sent[i] = rank * 1000 + i;
          all.push_back({reinterpret_cast<std::byte*>(&sent[i]), sizeof(uint32_t), 1 - rank, true});
        }
        for (uint32_t i = 0; i < kMany; ++i)
          all.push_back({reinterpret_cast<std::byte*>(&received[i]), sizeof(uint32_t), 1 - rank, false});
        transport->exchange(all);
        for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(received[i], (1 - rank) * 1000 + i);
        float leaving = 0;
        transport->all_reduce(&leaving, 1, TRANSOM_FLOAT32, TRANSOM_SUM);
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

// What a rank sent before it left is lost with its memory; who waits for it is told at once.
TEST_F(Gloo, DoesNotWaitForARankThatLeft) {
  const Id id = make_id(60);
  std::unique_ptr<Transport> other;
  std::thread joining([&] { other = join(id, 1, 2); });
  const auto transport = join(id, 0, 2);
  joining.join();
  const auto began = std::chrono::steady_clock::now();
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other.reset();
  });
  std::vector<std::byte> large(1 << 20);
  const Message message{large.data(), large.size(), 1, false};
  EXPECT_NE(failure_of([&] { transport->exchange({&message, 1}); }), "");
  leaving.join();
  EXPECT_NE(failure_of([&] { transport->exchange({&message, 1}); }), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

// A rank that is lost while another waits for it to read ends the waiting.
TEST_F(Gloo, GivesUpMessagesThatNobodyReads) {
  const Id id = make_id(60);
  std::unique_ptr<Transport> other;
  std::thread joining([&] { other = join(id, 1, 2); });
  const auto transport = join(id, 0, 2);
  joining.join();
  std::vector<std::byte> large(1 << 20);
  const Message message{large.data(), large.size(), 1, true};
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other->abort();
  });
  EXPECT_NE(failure_of([&] { transport->exchange({&message, 1}); }), "");
  leaving.join();
}

// ddp_timeout bounds a collective to which another rank does not come.
TEST_F(Gloo, WaitsAsLongAsItWasTold) {
  const Id id = make_id(1);
  std::atomic<bool> done{false};
  std::thread other([&] {
    const auto transport = join(id, 1, 2);
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  const auto transport = join(id, 0, 2);
  const auto began = std::chrono::steady_clock::now();
  float value = 1;
  EXPECT_NE(failure_of([&] { transport->all_reduce(&value, 1, TRANSOM_FLOAT32, TRANSOM_SUM); }), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  done = true;
  other.join();
}

// ---- mpi: below mpirun this very program

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_mpi.so") || std::system("command -v mpirun >/dev/null") != 0)
      GTEST_SKIP() << "there is no MPI";
  }
  // The test of this name as so many processes; the status.
  int run(const std::string& test, int ranks) const {
    const std::string command =
        "TRANSOM_TEST_FOLDER=" + folder_.string() + " mpirun --allow-run-as-root --oversubscribe -n " +
        std::to_string(ranks) + " " + fs::read_symlink("/proc/self/exe").string() +
        " --gtest_also_run_disabled_tests --gtest_filter=" + test + " > " + (folder_ / "output").string() + " 2>&1";
    return std::system(command.c_str());
  }
  test::TemporaryFolder folder_;
};

// One of the ranks of a group writes the id, the others read it.
Id share_id(const TransportLibrary& library, const std::string& name, bool writes) {
  const fs::path path = fs::path(std::getenv("TRANSOM_TEST_FOLDER")) / name;
  Id id{};
  if (writes) {
    library.make_id({.timeout = 20}, id.data(), id.size());
    write_file(path, std::string(id.begin(), id.end()));
    return id;
  }
  while (!fs::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::string bytes = read_file(path);
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

// Ranks that are processes leave their parts in files; here all ranks get the same part.
Exchange among_files(const std::string& name, uint32_t place) {
  return [name, place](const std::vector<Bytes>& parts) {
    const fs::path folder = std::getenv("TRANSOM_TEST_FOLDER");
    const auto file = [&](size_t rank) { return folder / (name + "-" + std::to_string(rank)); };
    write_file(file(place), std::string(parts[0].begin(), parts[0].end()));
    std::vector<Bytes> column;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      while (!fs::exists(file(rank))) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      column.push_back(bytes_of(read_file(file(rank))));
    }
    return column;
  };
}

int64_t sum_over(Transport& group, int64_t mine) {
  group.all_reduce(&mine, 1, TRANSOM_INT64, TRANSOM_SUM);
  return mine;
}

TEST_F(Mpi, MakesGroupsOfSomeRanks) {
  EXPECT_EQ(run("MpiRanks.DISABLED_AreInGroups", 4), 0) << read_file(folder_ / "output");
}

// Four processes: a group of the even ones, one of the odd ones in the other order, one of three, and one of all.
TEST(MpiRanks, DISABLED_AreInGroups) {
  const TransportLibrary& library = *library_of("mpi");
  ASSERT_TRUE(library.launched());
  const auto rank = static_cast<uint32_t>(std::stoi(std::getenv("OMPI_COMM_WORLD_RANK")));
  const auto join = [&](const std::string& name, uint32_t place, uint32_t ranks) {
    const Id id = share_id(library, name, place == 0);
    return std::unique_ptr<Transport>(library.join(id.data(), id.size(), place, ranks, among_files(name, place)));
  };
  const bool odd = rank % 2 == 1;
  const auto half = join(odd ? "odd" : "even", odd ? 1 - rank / 2 : rank / 2, 2);
  EXPECT_EQ(sum_over(*half, rank), odd ? 4 : 2);
  uint32_t order[2] = {};
  half->all_gather(&rank, order, sizeof rank);
  EXPECT_EQ(order[0], odd ? 3u : 0u);
  EXPECT_EQ(order[1], odd ? 1u : 2u);
  if (rank != 2) {
    EXPECT_EQ(sum_over(*join("three", rank == 3 ? 2 : rank, 3), 10), 30);
  }
  EXPECT_EQ(sum_over(*half, 1), 2);
  const auto all = join("all", rank, 4);
  EXPECT_EQ(sum_over(*all, 1), 4);
}

}  // namespace
}  // namespace transom::cpu
