// SPDX-License-Identifier: Apache-2.0
// The store among threads in the place of processes.
#include "distributed/store.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

constexpr double kPatience = 20;

class Store : public testing::Test {
 protected:
  Launch launch(int64_t rank, int64_t ranks) const {
    return {.rank = rank, .ranks = ranks, .master_address = "127.0.0.1", .master_port = port_, .job = "test"};
  }
  // Runs body(client, rank) as each rank; the text of what it throws, by rank.
  template <typename Body>
  std::vector<std::string> as_ranks(int64_t ranks, Body&& body, double timeout = kPatience) {
    const StoreServer server(launch(0, ranks), timeout);
    std::vector<std::string> messages(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        messages[static_cast<size_t>(rank)] = message_of([&] {
          StoreClient client(launch(rank, ranks), timeout);
          body(client, rank);
          client.leave();
        });
      });
    for (std::thread& thread : threads) thread.join();
    return messages;
  }

  void SetUp() override {
    // A port that is free now.
    Socket probe = listen_at("127.0.0.1", 0);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ASSERT_EQ(::getsockname(probe.file(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  uint16_t port_ = 0;
};

TEST_F(Store, GathersWhatEachRankGives) {
  const auto messages = as_ranks(4, [](StoreClient& client, int64_t rank) {
    for (int round = 0; round < 50; ++round) {
      const auto all = client.all_gather(std::string(static_cast<size_t>(round * 1000), 'x') + std::to_string(rank));
      ASSERT_EQ(all.size(), 4u);
      for (size_t r = 0; r < 4; ++r) {
        EXPECT_EQ(all[r].size(), static_cast<size_t>(round * 1000 + 1));
        EXPECT_EQ(all[r].back(), static_cast<char>('0' + r));
      }
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

TEST_F(Store, RefusesStrangersAndWorksOn) {
  const StoreServer server(launch(0, 2), kPatience);
  // Bytes that are no frame, a frame longer than a stranger may send, a rank that there is not, and another job's.
  const auto is_refused = [&](const std::string& bytes) {
    Socket socket = connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5));
    ::send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char byte;
    return ::recv(socket.file(), &byte, 1, 0) <= 0;
  };
  EXPECT_TRUE(is_refused("GET / HTTP/1.1\r\nHost: transom\r\n\r\n"));
  EXPECT_TRUE(is_refused(std::string("\xA7\x54\x53\x4D\x01\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 16)));
  const auto hello_is_refused = [&](const std::vector<std::string>& fields) {
    Socket socket = connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5));
    send_frame(socket, FrameKind::kHello, joined_texts(fields));
    char byte;
    return ::recv(socket.file(), &byte, 1, 0) <= 0;
  };
  EXPECT_TRUE(hello_is_refused({"2", "2", "test"}));
  EXPECT_TRUE(hello_is_refused({"-1", "2", "test"}));
  EXPECT_TRUE(hello_is_refused({"1", "3", "test"}));
  EXPECT_TRUE(hello_is_refused({"1", "2", "another job"}));
  EXPECT_TRUE(hello_is_refused({"1", "2"}));
  std::thread other([&] {
    StoreClient client(launch(1, 2), kPatience);
    client.all_gather("b");
    client.leave();
  });
  StoreClient client(launch(0, 2), kPatience);
  EXPECT_EQ(client.all_gather("a"), (std::vector<std::string>{"a", "b"}));
  client.leave();
  other.join();
}

TEST_F(Store, TellsTheOthersWhoFailedAndWhy) {
  const auto messages = as_ranks(3, [](StoreClient& client, int64_t rank) {
    if (rank == 1) {
      const auto lost = client.fail_with("no disk");
      ASSERT_TRUE(lost);
      EXPECT_EQ(lost->rank, 1);
      EXPECT_EQ(lost->reporter, 1);
      return;
    }
    client.all_gather("x");
  });
  EXPECT_EQ(messages[0], "rank 1 is lost: no disk");
  EXPECT_EQ(messages[1], "");
  EXPECT_EQ(messages[2], "rank 1 is lost: no disk");
}

// A process that is killed closes its connection and says nothing; the lowest rank that is left speaks for it.
TEST_F(Store, NoticesARankThatEndsWithoutAWord) {
  std::atomic<int> callbacks{0};
  const auto messages = as_ranks(3, [&](StoreClient& client, int64_t rank) {
    if (rank == 0) fail("gone");  // the client goes without leave()
    client.on_loss([&] { ++callbacks; });
    const auto lost = client.lost(std::chrono::seconds(10));
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->rank, 0);
    EXPECT_EQ(lost->text, "");
    EXPECT_EQ(lost->reporter, 1);
    client.all_gather("x");
  });
  EXPECT_EQ(messages[1], "rank 0 is lost: its process ended without a word");
  EXPECT_EQ(messages[2], messages[1]);
  EXPECT_EQ(callbacks, 2);
}

TEST_F(Store, NamesTheRankThatIsLate) {
  const auto messages = as_ranks(
      2,
      [](StoreClient& client, int64_t rank) {
        if (rank == 1) client.lost(std::chrono::seconds(10));
        else client.all_gather("x");
      },
      1);
  EXPECT_EQ(messages[0], "rank 1 is lost: it did not come to where the others wait for it in time");
}

TEST_F(Store, SaysThatARankNeverCame) {
  const StoreServer server(launch(0, 2), 1);
  const std::string message = message_of([&] { StoreClient client(launch(0, 2), 1); });
  EXPECT_NE(message.find("not all of the 2 ranks came"), std::string::npos) << message;
}

TEST_F(Store, SaysThatThereIsNoServer) {
  const std::string message = message_of([&] { StoreClient client(launch(1, 2), 1); });
  EXPECT_NE(message.find("rank 0 was not reached at 127.0.0.1:"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
