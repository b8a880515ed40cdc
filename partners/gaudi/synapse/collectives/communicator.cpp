// SPDX-License-Identifier: Apache-2.0
#include "communicator.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "../call.h"
#include "../configuration.h"
#include "../kernels/numbers.h"

namespace synapse_emulator {
namespace {

using emulator_common::Combine;
using emulator_common::Group;
using emulator_common::GroupError;

double limit() { return configuration().timeout_seconds; }
uint32_t address() { return emulator_common::own_address("HCCL_SOCKET_IFNAME"); }

int result_of(const GroupError& error) {
  if (error.kind == GroupError::kTimeout) return hcclTryAgainError;
  return error.kind == GroupError::kUsage ? hcclInvalidUsage : hcclSocketError;
}

// The same with the results of this library.
template <typename Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const GroupError& error) {
    throw Failure{result_of(error), error.text};
  }
}

uint64_t element_bytes(int type) { return type == hcclBfloat16 ? 2 : 4; }

Combine combination(int type, int operation) {
  return [type, operation](const std::vector<const char*>& parts, char* out, uint64_t count) {
    const synDataType element = type == hcclBfloat16 ? syn_type_bf16 : syn_type_single;
    constexpr int64_t kBlock = 1024;
    float total[kBlock], next[kBlock];
    for (int64_t begin = 0; begin < static_cast<int64_t>(count); begin += kBlock) {
      const int64_t width = std::min<int64_t>(kBlock, static_cast<int64_t>(count) - begin);
      for (size_t rank = 0; rank < parts.size(); ++rank) {
        load<float>(element, parts[rank], begin, 1, width, rank == 0 ? total : next);
        for (int64_t i = 0; rank > 0 && i < width; ++i) {
          switch (operation) {
            case hcclProd:
              total[i] *= next[i];
              break;
            case hcclMin:
              total[i] = next[i] < total[i] || std::isnan(next[i]) ? next[i] : total[i];
              break;
            case hcclMax:
              total[i] = next[i] > total[i] || std::isnan(next[i]) ? next[i] : total[i];
              break;
            default:
              total[i] += next[i];
          }
        }
      }
      if (operation == hcclAvg)
        for (int64_t i = 0; i < width; ++i) total[i] /= static_cast<float>(parts.size());
      store<float>(element, out, begin, 1, width, total);
    }
  };
}

}  // namespace

Meeting open_meeting() {
  return translated([] { return emulator_common::open_meeting(address(), limit()); });
}

Meeting fixed_meeting(bool open) {
  const char* text = std::getenv("HCCL_COMM_ID");
  const char* colon = text ? std::strrchr(text, ':') : nullptr;
  Meeting meeting;
  meeting.nonce = 1;
  const std::string host = colon ? std::string(text, colon) : "";
  const int port = colon ? std::atoi(colon + 1) : 0;
  if (!colon || inet_pton(AF_INET, host.c_str(), &meeting.endpoint.address) != 1 || port <= 0 || port > 65535)
    throw Failure{hcclInvalidArgument, "no unique id, and HCCL_COMM_ID is not address:port"};
  meeting.endpoint.port = htons(static_cast<uint16_t>(port));
  if (!open) return meeting;
  return translated([&] { return emulator_common::open_meeting(meeting.endpoint, meeting.nonce, limit()); });
}

Communicator::Communicator(const Meeting& meeting, int rank, int size)
    : group_(translated([&] { return std::make_unique<Group>(meeting, rank, size, address(), limit()); })) {
  translated([&] {
    count_servers();
    return 0;
  });
}

// Who has the same name of a server and the same address is in one server, which has eight cards at most.
void Communicator::count_servers() {
  constexpr int kCards = 8;
  server_ = std::hash<std::string>()(configuration().server + "@" + std::to_string(address()));
  servers_of_ranks_.resize(static_cast<size_t>(size()));
  group_->all_gather(reinterpret_cast<char*>(&server_), reinterpret_cast<char*>(servers_of_ranks_.data()),
                     sizeof server_);
  std::map<uint64_t, int> ranks;
  for (uint64_t& server : servers_of_ranks_) {
    const int before = ranks[server]++;
    server += static_cast<uint64_t>(before / kCards);
    if (static_cast<size_t>(rank()) == static_cast<size_t>(&server - servers_of_ranks_.data())) server_ = server;
  }
  ranks.clear();
  for (const uint64_t server : servers_of_ranks_) ++ranks[server];
  servers_ = static_cast<int>(ranks.size());
  ranks_of_server_ = size();
  for (const auto& [server, count] : ranks) ranks_of_server_ = std::min(ranks_of_server_, count);
}

void Communicator::broken(int result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return;
  error_ = result;
  text_ = text;
  group_->shut();
}

int Communicator::error(std::string* text) const {
  const std::lock_guard lock(mutex_);
  if (text) *text = text_;
  return error_;
}

template <typename Work>
void Communicator::run(Work&& work) {
  std::string text;
  if (error(&text) != 0) throw Failure{synFailedHccl, text};
  try {
    work(*group_);
  } catch (const GroupError& failure) {
    broken(result_of(failure), failure.text);
    throw Failure{synFailedHccl, failure.text};
  }
}

void Communicator::all_reduce(char* send, char* receive, uint64_t count, int type, int operation) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.all_reduce(send, receive, count, element_bytes(type), combination(type, operation)); });
}

void Communicator::reduce(char* send, char* receive, uint64_t count, int type, int operation, int root) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.reduce(send, receive, count, element_bytes(type), combination(type, operation), root); });
}

void Communicator::reduce_scatter(char* send, char* receive, uint64_t count, int type, int operation) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.reduce_scatter(send, receive, count, element_bytes(type), combination(type, operation)); });
}

void Communicator::all_gather(char* send, char* receive, uint64_t bytes) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.all_gather(send, receive, bytes); });
}

void Communicator::broadcast(char* send, char* receive, uint64_t bytes, int root) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.broadcast(send, receive, bytes, root); });
}

void Communicator::all_to_all(char* send, char* receive, uint64_t bytes) {
  if (!configuration().values) return barrier();
  run([&](Group& g) { g.all_to_all(send, receive, bytes); });
}

void Communicator::barrier() {
  run([](Group& g) { g.barrier(); });
}

void Communicator::point_to_point(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  if (configuration().values) return run([&](Group& g) { g.point_to_point(sends, receives); });
  std::vector<char> sent(sends.size()), received(receives.size());  // only that they came
  const auto marks = [](std::vector<Message> messages, std::vector<char>& bytes) {
    for (size_t i = 0; i < messages.size(); ++i)
      if (messages[i].bytes > 0) messages[i] = {messages[i].peer, &bytes[i], 1};
    return messages;
  };
  run([&](Group& g) { g.point_to_point(marks(sends, sent), marks(receives, received)); });
}

}  // namespace synapse_emulator
