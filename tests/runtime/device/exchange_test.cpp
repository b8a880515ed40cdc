// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other while a communicator is made, as a plugin asks for it.
#include "runtime/device/exchange.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace transom {
namespace {

struct Outcome {
  transom_status status;
  std::vector<std::string> column;
  std::string text;
};

Outcome exchange(const CommunicatorId& id, uint32_t rank, const std::vector<std::string>& parts) {
  std::vector<transom_bytes> mine;
  for (const std::string& part : parts) mine.push_back({part.data(), part.size()});
  Outcome outcome{TRANSOM_OK, std::vector<std::string>(parts.size()), ""};
  transom_error error{};
  const auto take = [](void* context, uint32_t from, const void* data, size_t bytes) {
    static_cast<Outcome*>(context)->column.at(from).assign(static_cast<const char*>(data), bytes);
  };
  outcome.status =
      exchange_of_host(id.data(), rank, static_cast<uint32_t>(parts.size()), mine.data(), take, &outcome, &error);
  outcome.text = error.text;
  return outcome;
}

CommunicatorId id_of(unsigned char first) { return {first}; }

std::string part(uint32_t from, uint32_t to, int round) {
  return std::string(from, 'x') + std::to_string(to) + "." + std::to_string(round);
}

// Two communicators at once, several rounds each: no part strays.
TEST(Exchange, JoinsThreadsThatGiveOneId) {
  constexpr uint32_t kRanks = 3;
  std::vector<std::thread> threads;
  for (const unsigned char id : {1, 2})
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([=] {
        for (int round = 0; round < 20; ++round) {
          std::vector<std::string> parts, expected;
          for (uint32_t other = 0; other < kRanks; ++other) {
            parts.push_back(part(rank, other, round * id));
            expected.push_back(part(other, rank, round * id));
          }
          const Outcome outcome = exchange(id_of(id), rank, parts);
          EXPECT_EQ(outcome.status, TRANSOM_OK) << outcome.text;
          EXPECT_EQ(outcome.column, expected);
        }
      });
  for (std::thread& thread : threads) thread.join();
}

TEST(Exchange, GoesWhereItIsToldTo) {
  const UseExchange use(id_of(3), [](const std::vector<std::string>& parts) {
    return std::vector<std::string>{"from 0 to me", parts[1]};
  });
  EXPECT_EQ(exchange(id_of(3), 1, {"a", "b"}).column, (std::vector<std::string>{"from 0 to me", "b"}));
  EXPECT_THROW(UseExchange(id_of(3), {}), Error);
}

TEST(Exchange, SaysWhatIsWrong) {
  {
    const UseExchange use(id_of(4),
                          [](const auto&) -> std::vector<std::string> { fail(ErrorKind::kDevice, "rank 1 is lost"); });
    const Outcome outcome = exchange(id_of(4), 0, {"a", "b"});
    EXPECT_EQ(outcome.status, TRANSOM_DEVICE_LOST);
    EXPECT_EQ(outcome.text, "rank 1 is lost");
  }
  {
    const UseExchange use(id_of(5), [](const auto&) { return std::vector<std::string>{"one too few"}; });
    EXPECT_EQ(exchange(id_of(5), 0, {"a", "b"}).status, TRANSOM_DEVICE_LOST);
  }
  EXPECT_EQ(exchange(id_of(6), 2, {"a", "b"}).status, TRANSOM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace transom
