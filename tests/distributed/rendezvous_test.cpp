// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a transport meet, with threads in the place of processes.
#include "cpu/transports/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace transom::cpu {
namespace {

MeetingPoint open_here(uint32_t timeout = 20) { return open_meeting({.address = "127.0.0.1", .timeout = timeout}); }

// Each rank takes what is for it: n^2 parts go over the network, and not n^3.
TEST(Rendezvous, GivesARankItsColumn) {
  constexpr uint32_t kRanks = 200;
  constexpr size_t kPart = 128;
  const MeetingPoint point = open_here();
  std::atomic<uint64_t> bytes{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<Bytes> parts;
      for (uint32_t to = 0; to < kRanks; ++to) parts.emplace_back(kPart, static_cast<char>(rank * 7 + to));
      const Met met = meet(point, rank, parts);
      bytes += met.bytes;
      for (uint32_t from = 0; from < kRanks; ++from)
        wrong += met.parts[from] != Bytes(kPart, static_cast<char>(from * 7 + rank));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(bytes, kRanks * (kRanks * (kPart + 4) + 8));
}

TEST(Rendezvous, RefusesUnknownPeersAndParts) {
  const MeetingPoint point = open_here();
  const auto is_refused = [&](const std::string& said) {
    const int file = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = point.address;
    address.sin_port = point.port;
    EXPECT_EQ(::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::send(file, said.data(), said.size(), MSG_NOSIGNAL);
    char byte;
    const bool closed = ::recv(file, &byte, 1, 0) <= 0;
    ::close(file);
    return closed;
  };
  EXPECT_TRUE(is_refused(std::string(24, 'x')));
  // The right nonce, and parts that are longer than all that came.
  std::string hello(24 + 8, '\xFF');
  const uint32_t rank = 0, ranks = 2;
  const uint64_t length = 8;
  hello.replace(0, 8, reinterpret_cast<const char*>(&point.nonce), 8);
  hello.replace(8, 4, reinterpret_cast<const char*>(&rank), 4);
  hello.replace(12, 4, reinterpret_cast<const char*>(&ranks), 4);
  hello.replace(16, 8, reinterpret_cast<const char*>(&length), 8);
  EXPECT_TRUE(is_refused(hello));
  std::thread other([&] { meet(point, 1, {{'a'}, {'b'}}); });
  EXPECT_EQ(meet(point, 0, {{'c'}, {'d'}}).parts, (std::vector<Bytes>{{'c'}, {'a'}}));
  other.join();
}

TEST(Rendezvous, EndsWhenARankDoesNotCome) {
  const MeetingPoint point = open_here(1);
  EXPECT_THROW(meet(point, 0, {{'a'}, {'b'}}), std::runtime_error);
}

}  // namespace
}  // namespace transom::cpu
