// SPDX-License-Identifier: Apache-2.0
// Messages by shared memory: between two threads, so that the thread sanitizer sees both sides, and from a process that
// is killed.
#include "cpu/transports/near_mail.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace transom::cpu {
namespace {

template <typename T>
Message to(uint32_t peer, T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value, peer, true};
}
template <typename T>
Message from(uint32_t peer, T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value, peer, false};
}

// What an exchange throws; empty if nothing.
std::string failure_of_exchange(NearMail& mail, const Message& message) {
  try {
    mail.exchange({&message, 1});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

// Two ranks that are threads of this process.
struct Pair {
  explicit Pair(uint32_t timeout = 60) : left(0, 2, timeout), right(1, 2, timeout) {
    left.open_box(1, right);
    right.open_box(0, left);
  }
  NearMail left, right;
};

// A message orders memory as a lock does: what its sender wrote before is seen by its receiver, and what the receiver
// wrote before it answered is seen by the sender. More messages at a time than may wait to be read.
TEST(NearMail, MessagesOrderMemory) {
  constexpr int kRounds = 300, kMessages = 70;
  Pair pair;
  int of_left = -1, of_right = -1;  // without a lock
  std::thread right([&] {
    std::vector<int> received(kMessages);
    std::vector<Message> all;
    for (int& value : received) all.push_back(from(0, value));
    for (int round = 0; round < kRounds; ++round) {
      of_right = round;
      pair.right.exchange(all);
      ASSERT_EQ(of_left, round);
      for (int i = 0; i < kMessages; ++i) ASSERT_EQ(received[static_cast<size_t>(i)], round * i);
      int done = round;
      const Message answer = to(0, done);
      pair.right.exchange({&answer, 1});
    }
  });
  std::vector<int> sent(kMessages);
  std::vector<Message> all;
  for (int& value : sent) all.push_back(to(1, value));
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kMessages; ++i) sent[static_cast<size_t>(i)] = round * i;
    of_left = round;
    pair.left.exchange(all);
    EXPECT_EQ(of_right, round);
    int done = -1;
    const Message answer = from(1, done);
    pair.left.exchange({&answer, 1});
    EXPECT_EQ(done, round);
  }
  right.join();
}

// Each way at once, as all_gather sends.
TEST(NearMail, ExchangesBothWaysAtOnce) {
  Pair pair;
  const auto run = [](NearMail& mail, uint32_t peer) {
    for (uint64_t round = 0; round < 1000; ++round) {
      uint64_t mine = round * 2 + peer, theirs = 0;
      const Message messages[] = {to(peer, mine), from(peer, theirs)};
      mail.exchange(messages);
      ASSERT_EQ(theirs, round * 2 + (1 - peer));
    }
  };
  std::thread right([&] { run(pair.right, 0); });
  run(pair.left, 1);
  right.join();
}

// Its memory may hold something else by the time that it is read.
TEST(NearMail, DoesNotTakeTheMessageOfOneThatGaveUp) {
  Pair pair;
  int value = 7, received = 0;
  std::string failure;
  std::thread sending([&] { failure = failure_of_exchange(pair.right, to(0, value)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the message waits
  pair.right.abort();
  sending.join();
  EXPECT_NE(failure, "");
  EXPECT_EQ(failure_of_exchange(pair.left, from(1, received)), "rank 1 of the group is gone");
}

TEST(NearMail, IsGivenUpByAnotherThread) {
  Pair pair;
  int received = 0;
  std::string failure;
  std::thread waiting([&] { failure = failure_of_exchange(pair.left, from(1, received)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  pair.left.abort();
  waiting.join();
  EXPECT_EQ(failure, "the group was given up");
}

TEST(NearMail, RefusesMessagesOfAnotherSize) {
  Pair pair;
  int64_t value = 7;
  int32_t received = 0;
  std::thread sending([&] { failure_of_exchange(pair.right, to(0, value)); });
  EXPECT_EQ(failure_of_exchange(pair.left, from(1, received)),
            "rank 1 of the group sends 8 bytes where 4 were expected: the ranks do not compute the same");
  pair.left.abort();
  sending.join();
}

TEST(NearMail, WaitsAsLongAsItWasTold) {
  Pair pair(1);
  int received = 0;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(failure_of_exchange(pair.left, from(1, received)), "rank 1 of the group did not come in time");
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(900));
}

// A process that is killed says nothing: it is looked for.
TEST(NearMail, SeesThatAProcessWasKilled) {
  NearMail mail(0, 2, 60);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t parent = ::getpid(), child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    NearMail own(1, 2, 60);
    int value = 42;
    const int file = own.open_box(0, parent, mail.file()) ? own.file() : -1;
    if (::write(told[1], &file, sizeof file) == sizeof file && file >= 0) failure_of_exchange(own, to(0, value));
    for (;;) ::pause();
  }
  ::close(told[1]);
  int file = -1, received = 0;
  const ssize_t heard = ::read(told[0], &file, sizeof file);
  ::close(told[0]);
  const bool opened = file >= 0 && mail.open_box(1, child, file);
  const std::string before = opened ? failure_of_exchange(mail, from(1, received)) : "";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(heard, static_cast<ssize_t>(sizeof file));
  if (!opened) GTEST_SKIP() << "processes of this system may not open each other's files";
  EXPECT_EQ(before, "");
  EXPECT_EQ(received, 42);
  EXPECT_EQ(failure_of_exchange(mail, from(1, received)), "rank 1 of the group has ended");
}

}  // namespace
}  // namespace transom::cpu
