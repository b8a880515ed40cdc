// SPDX-License-Identifier: Apache-2.0
// The store among threads in the place of processes.
#include "runtime/distributed/store.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/terminal/log.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

constexpr double kPatience = 20;
constexpr StoreOptions kPatient{.timeout = kPatience};

class Store : public testing::Test {
 protected:
  Launch launch(int64_t rank, int64_t ranks) const {
    return {.rank = rank, .ranks = ranks, .master_address = "127.0.0.1", .master_port = port_, .job = "test"};
  }
  // Runs body(client, rank) as each rank; the text of what it throws, by rank.
  template <typename Body>
  std::vector<std::string> as_ranks(int64_t ranks, Body&& body, double timeout = kPatience) {
    const StoreOptions options{.timeout = timeout};
    const StoreServer server(launch(0, ranks), options);
    std::vector<std::string> messages(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        messages[static_cast<size_t>(rank)] = message_of([&] {
          StoreClient client(launch(rank, ranks), options);
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

// Groups that share ranks meet at once, while all ranks gather, and each rank gets what is for it.
TEST_F(Store, LetsSomeRanksMeet) {
  const auto messages = as_ranks(4, [](StoreClient& client, int64_t rank) {
    const std::vector<int64_t> pair = rank % 2 == 0 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{1, 3};
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string> parts, expected;
      for (const int64_t other : pair) {
        parts.push_back(fmt::format("{} to {}, {}", rank, other, round));
        expected.push_back(fmt::format("{} to {}, {}", other, rank, round));
      }
      EXPECT_EQ(client.exchange_among(pair, fmt::format("{}#{}", fmt::join(pair, ","), round), parts), expected);
      if (round % 7 == 0) {
        EXPECT_EQ(client.all_gather("x").size(), 4u);
      }
      if (rank != 1) {
        EXPECT_EQ(client.exchange_among({0, 2, 3}, fmt::format("three {}", round), {"a", "b", "c"}),
                  std::vector<std::string>(3, std::string(1, rank == 0   ? 'a'
                                                             : rank == 2 ? 'b'
                                                                         : 'c')));
      }
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

TEST_F(Store, RefusesMeetingsThatDoNotFit) {
  for (const std::string& contents :
       {std::string("junk"), joined_texts({"name"}), joined_texts({"name", "0", "0", "of ranks that it is none of"}),
        joined_texts({"name", "1-7", "0", "a"}), joined_texts({"name", "1,1", "0", "a"}),
        joined_texts({"name", "x", "0", "a"}), joined_texts({"name", "0-1", "0"}),
        joined_texts({"name", "0-1", "2", "a"}), joined_texts({"name", "0-1", "-1", "a"}),
        joined_texts({"name", "0-1", "x", "a"})}) {
    const StoreServer server(launch(0, 2), {.timeout = 5});
    std::vector<Socket> sockets;
    for (const char* rank : {"0", "1"}) {
      sockets.push_back(connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5)));
      send_frame(sockets.back(), FrameKind::kHello, joined_texts({rank, "2", "test"}));
    }
    FrameReader reader(1 << 20);
    bool lost = false;
    while (!lost && reader.read(sockets[1]))
      while (const auto frame = reader.next()) {
        if (frame->kind == FrameKind::kWelcome) send_frame(sockets[1], FrameKind::kGroupExchange, contents);
        lost |= frame->kind == FrameKind::kLost && split_texts(frame->contents)->front() == "1";
      }
    EXPECT_TRUE(lost) << contents;
  }
}

// Who does not come to a round is named to those who wait.
TEST_F(Store, NamesWhoDoesNotComeToAMeeting) {
  const auto messages = as_ranks(
      3,
      [](StoreClient& client, int64_t rank) {
        if (rank != 1) client.exchange_among({0, 1, 2}, "all", {"", "", ""});
        else client.lost(std::chrono::seconds(10));
      },
      1.0);
  for (const int64_t rank : {0, 2})
    EXPECT_NE(messages[static_cast<size_t>(rank)].find("rank 1 is lost: it did not come"), std::string::npos)
        << messages[static_cast<size_t>(rank)];
}

TEST_F(Store, ExchangesAPartForEachRank) {
  constexpr int64_t kRanks = 5;
  const auto part = [](int64_t from, int64_t to, int round) {
    return std::string(static_cast<size_t>(from * 100 + round), static_cast<char>('a' + to));
  };
  const auto messages = as_ranks(kRanks, [&](StoreClient& client, int64_t rank) {
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string> parts, expected;
      for (int64_t other = 0; other < kRanks; ++other) {
        parts.push_back(part(rank, other, round));
        expected.push_back(part(other, rank, round));
      }
      EXPECT_EQ(client.exchange_among({0, 1, 2, 3, 4}, fmt::format("round {}", round), parts), expected);
      EXPECT_EQ(client.all_gather(std::to_string(rank)), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

// A rank gets what is for it, and what nobody brings does not travel.
TEST_F(Store, SendsARankNothingButItsColumn) {
  constexpr int64_t kRanks = 128, kEven = kRanks / 2;
  constexpr size_t kPart = 256;
  const StoreServer server(launch(0, kRanks), kPatient);
  std::vector<Socket> sockets;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    sockets.push_back(connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5)));
    send_frame(sockets.back(), FrameKind::kHello, joined_texts({std::to_string(rank), std::to_string(kRanks), "test"}));
  }
  // Of the even ones each brings something for the next one alone.
  const std::string part(kPart, 'x');
  for (int64_t i = 0; i < kEven; ++i)
    send_frame(sockets[static_cast<size_t>(2 * i)], FrameKind::kGroupExchange,
               joined_texts({"next", "0-126:2", std::to_string((i + 1) % kEven), part}));
  for (int64_t i = 0; i < kEven; ++i) {
    FrameReader reader(1 << 20);
    std::optional<Frame> answer;
    const Socket& socket = sockets[static_cast<size_t>(2 * i)];
    while (!answer && reader.read(socket))
      while (const auto frame = reader.next())
        if (frame->kind == FrameKind::kGroupAnswer) answer = frame;
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->contents, joined_texts({"next", std::to_string((i + kEven - 1) % kEven), part}));
  }
  for (const Socket& socket : sockets) send_frame(socket, FrameKind::kBye, "");
}

// What all give alike comes back once.
TEST(StoreTexts, AreJoinedInRuns) {
  using Texts = std::vector<std::string>;
  for (const Texts& texts : {Texts{}, Texts{""}, Texts{"a", "a", "b", "", "", "a"}, Texts(1000, "cpu")})
    EXPECT_EQ(split_runs(joined_runs(texts), texts.size()), texts);
  EXPECT_LT(joined_runs(Texts(1000, "cpu")).size(), 30u);
  EXPECT_FALSE(split_runs(joined_runs(Texts(1000, "cpu")), 999));
  for (const Texts& runs :
       {Texts{"1"}, Texts{"0", "a"}, Texts{"-1", "a"}, Texts{"x", "a"}, Texts{"9000000000000", "a"}})
    EXPECT_FALSE(split_runs(joined_texts(runs), 1000));
}

TEST_F(Store, RefusesStrangersAndWorksOn) {
  const StoreServer server(launch(0, 2), kPatient);
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
    StoreClient client(launch(1, 2), kPatient);
    client.all_gather("b");
    client.leave();
  });
  StoreClient client(launch(0, 2), kPatient);
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
  const StoreServer server(launch(0, 2), {.timeout = 1});
  const std::string message = message_of([&] { StoreClient client(launch(0, 2), {.timeout = 1}); });
  EXPECT_NE(message.find("not all of the 2 ranks came"), std::string::npos) << message;
}

TEST_F(Store, SaysThatThereIsNoServer) {
  const std::string message = message_of([&] { StoreClient client(launch(1, 2), {.timeout = 1}); });
  EXPECT_NE(message.find("rank 0 was not reached at 127.0.0.1:"), std::string::npos) << message;
}

// ---- ranks of which nothing is heard

class SilentPeers : public Store {
 protected:
  static constexpr StoreOptions kShort{.timeout = kPatience, .silence = 0.6};
  // A rank that says hello, and then nothing: its process is stopped, or a cable is out.
  Socket silent_rank(int64_t rank, int64_t ranks) const {
    Socket socket = connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5));
    send_frame(socket, FrameKind::kHello, joined_texts({std::to_string(rank), std::to_string(ranks), "test"}));
    return socket;
  }
};

TEST_F(SilentPeers, AreLostWithinTheStatedTime) {
  const StoreServer server(launch(0, 3), kShort);
  const Socket silent = silent_rank(2, 3);
  const Clock::time_point began = Clock::now();
  std::string messages[2];
  const auto rank = [&](int64_t number) {
    messages[number] = message_of([&] {
      StoreClient client(launch(number, 3), kShort);
      const auto lost = client.lost(std::chrono::seconds(10));
      ASSERT_TRUE(lost);
      EXPECT_EQ(lost->rank, 2);
      EXPECT_EQ(lost->reporter, 0);
      client.all_gather("x");
    });
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(3));
  for (const std::string& message : messages)
    EXPECT_NE(message.find("rank 2 is lost: it has given no sign of life for 0.6 seconds"), message.npos) << message;
}

TEST_F(SilentPeers, MayBeRank0) {
  const Socket listener = listen_at("127.0.0.1", port_);
  Socket server;
  std::thread accepts([&] {
    server = Socket(::accept(listener.file(), nullptr, nullptr));
    send_frame(server, FrameKind::kWelcome, "");
  });
  StoreClient client(launch(1, 2), kShort);
  accepts.join();
  const Clock::time_point began = Clock::now();
  const std::string message = message_of([&] { client.all_gather("x"); });
  EXPECT_NE(message.find("rank 0 is lost: it has given no sign of life"), message.npos) << message;
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(3));
  EXPECT_EQ(client.lost({})->reporter, 1);
}

TEST_F(SilentPeers, AreNotThoseWhoComputeForLong) {
  const StoreServer server(launch(0, 2), kShort);
  std::thread other([&] {
    StoreClient client(launch(1, 2), kShort);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    client.all_gather("b");
    client.leave();
  });
  StoreClient client(launch(0, 2), kShort);
  EXPECT_EQ(client.all_gather("a"), (std::vector<std::string>{"a", "b"}));
  client.leave();
  other.join();
}

// A rank that sends and does not read holds nobody up.
TEST_F(Store, WaitsForNoReader) {
  const StoreServer server(launch(0, 2), kPatient);
  const Socket other = connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5));
  send_frame(other, FrameKind::kHello, joined_texts({"1", "2", "test"}));
  const Clock::time_point began = Clock::now();
  StoreClient client(launch(0, 2), kPatient);
  for (int round = 0; round < 24; ++round) {
    send_frame(other, FrameKind::kGather, std::string(1 << 19, 'b'));
    EXPECT_EQ(client.all_gather("a").size(), 2u);
  }
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(15));
  send_frame(other, FrameKind::kBye, "");
  client.leave();
}

// Without a file for it a connection stays in the queue, and the server idles until there is one.
TEST_F(Store, IdlesWithoutFiles) {
  const StoreServer server(launch(0, 1), kPatient);
  const Socket probe = connect_to("127.0.0.1", port_, Clock::now() + std::chrono::seconds(5));
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{}, none{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  none = before;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the probe is accepted
  const int free = ::dup(0);                                    // the lowest number that is free
  ::close(free);
  none.rlim_cur = static_cast<rlim_t>(free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(port_), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const int connected = ::connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  rusage began{}, ended{};
  ::getrusage(RUSAGE_SELF, &began);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::getrusage(RUSAGE_SELF, &ended);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_EQ(connected, 0);
  const auto seconds = [](const rusage& usage) {
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  };
  EXPECT_LT(seconds(ended) - seconds(began), 0.2);
  send_frame(socket, FrameKind::kHello, joined_texts({"0", "1", "test"}));
  FrameReader reader(4096);
  ASSERT_TRUE(reader.read(socket));
  EXPECT_EQ(reader.next()->kind, FrameKind::kWelcome);
  send_frame(socket, FrameKind::kBye, "");
}

// ---- the end of a run

TEST_F(Store, StaysUntilAllHaveSaidGoodbye) {
  auto server = std::make_unique<StoreServer>(launch(0, 2), kPatient);
  std::atomic<bool> left{false};
  std::thread other([&] {
    StoreClient client(launch(1, 2), kPatient);
    client.on_loss([] { ADD_FAILURE() << "rank 0 ended before this one"; });
    client.all_gather("");
    EXPECT_FALSE(client.lost(std::chrono::milliseconds(400)));
    left = true;
    client.leave();
  });
  auto client = std::make_unique<StoreClient>(launch(0, 2), kPatient);
  client->all_gather("");
  client->leave();
  client.reset();
  server.reset();
  EXPECT_TRUE(left);
  other.join();
}

// What the callback uses may be destroyed once on_loss({}) has returned.
TEST_F(Store, WaitsForTheCallbackUnderWay) {
  const StoreServer server(launch(0, 2), kPatient);
  std::atomic<bool> began{false}, ended{false};
  std::thread other([&] { StoreClient client(launch(1, 2), kPatient); });  // ends without a word
  StoreClient client(launch(0, 2), kPatient);
  client.on_loss([&] {
    began = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ended = true;
  });
  other.join();
  while (!began) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  client.on_loss({});
  EXPECT_TRUE(ended);
}

TEST(FileLimit, IsRaised) {
  rlimit before{}, now{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  if (before.rlim_max < 300) GTEST_SKIP() << "the hard limit is lower";
  now = before;
  now.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  allow_files(300);
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_GE(now.rlim_cur, 300u);
  ::setrlimit(RLIMIT_NOFILE, &before);
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  if (before.rlim_max < UINT32_MAX) {
    allow_files(before.rlim_max + 1);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_NE(said[0].find("ulimit -n"), std::string::npos);
  }
  set_log_sink({});
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace transom
