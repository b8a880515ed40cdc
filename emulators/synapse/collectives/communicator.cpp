// SPDX-License-Identifier: Apache-2.0
#include "communicator.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "../call.h"
#include "../configuration.h"
#include "../kernels/numbers.h"

namespace synapse_emulator {
namespace {

double limit() { return configuration().timeout_seconds; }

// What each rank tells the meeting point, and the others.
struct Hello {
  uint64_t nonce;
  int32_t rank, size;
  Endpoint endpoint;
};

// Collects the greetings of all ranks and gives everybody the list.
void serve_meeting(const Socket& listener, uint64_t nonce) {
  try {
    std::vector<Socket> ranks;
    std::vector<Hello> hellos;
    size_t met = 0;
    do {
      Socket guest = accept_from(listener, limit());
      Hello hello = {};
      receive_all(guest, &hello, sizeof hello, limit());
      const bool fits = hello.nonce == nonce && hello.size > 0 && hello.size <= 65536 && hello.rank >= 0 &&
                        hello.rank < hello.size && (hellos.empty() || hellos.size() == static_cast<size_t>(hello.size));
      if (!fits) continue;  // not one of ours
      ranks.resize(static_cast<size_t>(hello.size));
      hellos.resize(static_cast<size_t>(hello.size));
      const auto rank = static_cast<size_t>(hello.rank);
      if (ranks[rank].is_open()) continue;  // a rank that is taken: its guest sees a closed connection
      ranks[rank] = std::move(guest);
      hellos[rank] = hello;
      ++met;
    } while (met == 0 || met < hellos.size());
    for (const Socket& rank : ranks) send_all(rank, hellos.data(), hellos.size() * sizeof(Hello), limit());
  } catch (const Failure&) {
    // The guests see closed connections.
  }
}

}  // namespace

Meeting open_meeting() {
  Meeting meeting;
  std::random_device random;
  meeting.nonce = uint64_t{random()} << 32 | random();
  meeting.endpoint.address = own_address();
  auto listener = std::make_shared<Socket>(listen_at(meeting.endpoint));
  std::thread([listener, nonce = meeting.nonce] { serve_meeting(*listener, nonce); }).detach();
  return meeting;
}

Meeting fixed_meeting(bool open) {
  const char* text = std::getenv("HCCL_COMM_ID");
  const char* colon = text ? std::strrchr(text, ':') : nullptr;
  Meeting meeting;
  meeting.nonce = 1;
  const std::string address = colon ? std::string(text, colon) : "";
  const int port = colon ? std::atoi(colon + 1) : 0;
  if (!colon || inet_pton(AF_INET, address.c_str(), &meeting.endpoint.address) != 1 || port <= 0 || port > 65535)
    throw Failure{hcclInvalidArgument, "no unique id, and HCCL_COMM_ID is not address:port"};
  meeting.endpoint.port = htons(static_cast<uint16_t>(port));
  if (open) {
    auto listener = std::make_shared<Socket>(listen_at(meeting.endpoint));
    std::thread([listener] { serve_meeting(*listener, 1); }).detach();
  }
  return meeting;
}

Communicator::Communicator(const Meeting& meeting, int rank, int size) : rank_(rank), size_(size) {
  sockets_.resize(static_cast<size_t>(size));
  Endpoint own;
  own.address = own_address();
  const Socket listener = listen_at(own);
  const Hello hello = {meeting.nonce, rank, size, own};
  const Socket meeting_point = connect_to(meeting.endpoint, limit());
  send_all(meeting_point, &hello, sizeof hello, limit());
  std::vector<Hello> all(static_cast<size_t>(size));
  receive_all(meeting_point, all.data(), all.size() * sizeof(Hello), limit());
  for (int peer = 0; peer < rank; ++peer) {
    sockets_[static_cast<size_t>(peer)] = connect_to(all[static_cast<size_t>(peer)].endpoint, limit());
    send_all(sockets_[static_cast<size_t>(peer)], &hello, sizeof hello, limit());
  }
  for (int missing = size - rank - 1; missing > 0; --missing) {
    Socket guest = accept_from(listener, limit());
    Hello found = {};
    receive_all(guest, &found, sizeof found, limit());
    const bool fits = found.nonce == meeting.nonce && found.rank > rank && found.rank < size &&
                      !sockets_[static_cast<size_t>(found.rank)].is_open();
    if (!fits) throw Failure{hcclInvalidUsage, "a connection of a rank that was not expected"};
    sockets_[static_cast<size_t>(found.rank)] = std::move(guest);
  }
}

void Communicator::broken(int result, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (error_ != 0) return;
  error_ = result;
  text_ = text;
  for (Socket& socket : sockets_) socket.shut();
}

int Communicator::error(std::string* text) const {
  const std::lock_guard lock(mutex_);
  if (text) *text = text_;
  return error_;
}

void Communicator::exchange_all(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  std::string text;
  if (error(&text) != 0) throw Failure{synFailedHccl, text};
  try {
    exchange(sockets_, sends, receives, limit());
  } catch (const Failure& failure) {
    broken(failure.status, failure.text);
    throw Failure{synFailedHccl, failure.text};
  }
}

void Communicator::combine(const char* own, const std::vector<std::vector<char>>& others, char* out, uint64_t count,
                           int type, int operation) const {
  const synDataType element = type == hcclBfloat16 ? syn_type_bf16 : syn_type_single;
  constexpr int64_t kBlock = 1024;
  float total[kBlock], next[kBlock];
  for (int64_t begin = 0; begin < static_cast<int64_t>(count); begin += kBlock) {
    const int64_t width = std::min<int64_t>(kBlock, static_cast<int64_t>(count) - begin);
    for (int rank = 0; rank < size_; ++rank) {
      const char* data = rank == rank_ ? own : others[static_cast<size_t>(rank)].data();
      float* target = rank == 0 ? total : next;
      load<float>(element, data, begin, 1, width, target);
      if (rank == 0) continue;
      for (int64_t i = 0; i < width; ++i) {
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
      for (int64_t i = 0; i < width; ++i) total[i] /= static_cast<float>(size_);
    store<float>(element, out, begin, 1, width, total);
  }
}

void Communicator::all_reduce(char* send, char* receive, uint64_t count, int type, int operation) {
  // Each rank combines one piece of all, then gives it to everybody.
  const uint64_t size = type == hcclBfloat16 ? 2 : 4, ranks = static_cast<uint64_t>(size_);
  const auto begin = [&](uint64_t rank) { return count * rank / ranks; };
  const auto own = static_cast<uint64_t>(rank_);
  const uint64_t own_count = begin(own + 1) - begin(own);
  std::vector<std::vector<char>> pieces(ranks);
  std::vector<Message> sends, receives;
  for (uint64_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    pieces[peer].resize(own_count * size);
    sends.push_back({static_cast<int>(peer), send + begin(peer) * size, (begin(peer + 1) - begin(peer)) * size});
    receives.push_back({static_cast<int>(peer), pieces[peer].data(), own_count * size});
  }
  exchange_all(sends, receives);
  std::vector<char> combined(own_count * size);
  combine(send + begin(own) * size, pieces, combined.data(), own_count, type, operation);
  if (own_count > 0) std::memcpy(receive + begin(own) * size, combined.data(), combined.size());
  sends.clear();
  receives.clear();
  for (uint64_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), combined.data(), combined.size()});
    receives.push_back({static_cast<int>(peer), receive + begin(peer) * size, (begin(peer + 1) - begin(peer)) * size});
  }
  exchange_all(sends, receives);
}

void Communicator::reduce(char* send, char* receive, uint64_t count, int type, int operation, int root) {
  const uint64_t bytes = count * (type == hcclBfloat16 ? 2 : 4);
  if (rank_ != root) return exchange_all({{root, send, bytes}}, {});
  std::vector<std::vector<char>> all(static_cast<size_t>(size_));
  std::vector<Message> receives;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    all[static_cast<size_t>(peer)].resize(bytes);
    receives.push_back({peer, all[static_cast<size_t>(peer)].data(), bytes});
  }
  exchange_all({}, receives);
  combine(send, all, receive, count, type, operation);
}

void Communicator::reduce_scatter(char* send, char* receive, uint64_t count, int type, int operation) {
  const uint64_t bytes = count * (type == hcclBfloat16 ? 2 : 4);
  std::vector<std::vector<char>> all(static_cast<size_t>(size_));
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    all[static_cast<size_t>(peer)].resize(bytes);
    sends.push_back({peer, send + static_cast<uint64_t>(peer) * bytes, bytes});
    receives.push_back({peer, all[static_cast<size_t>(peer)].data(), bytes});
  }
  exchange_all(sends, receives);
  std::vector<char> combined(bytes);  // `receive` may lie in `send`
  combine(send + static_cast<uint64_t>(rank_) * bytes, all, combined.data(), count, type, operation);
  if (bytes > 0) std::memcpy(receive, combined.data(), bytes);
}

void Communicator::all_gather(char* send, char* receive, uint64_t bytes) {
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    sends.push_back({peer, send, bytes});
    receives.push_back({peer, receive + static_cast<uint64_t>(peer) * bytes, bytes});
  }
  char* own = receive + static_cast<uint64_t>(rank_) * bytes;
  if (own != send && bytes > 0) std::memmove(own, send, bytes);
  exchange_all(sends, receives);
}

void Communicator::broadcast(char* send, char* receive, uint64_t bytes, int root) {
  std::vector<Message> sends;
  if (rank_ != root) return exchange_all({}, {{root, receive, bytes}});
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) sends.push_back({peer, send, bytes});
  if (send != receive && bytes > 0) std::memmove(receive, send, bytes);
  exchange_all(sends, {});
}

void Communicator::all_to_all(char* send, char* receive, uint64_t bytes) {
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < size_; ++peer) {
    const uint64_t place = static_cast<uint64_t>(peer) * bytes;
    if (peer == rank_) {
      if (bytes > 0) std::memmove(receive + place, send + place, bytes);
    } else {
      sends.push_back({peer, send + place, bytes});
      receives.push_back({peer, receive + place, bytes});
    }
  }
  exchange_all(sends, receives);
}

void Communicator::barrier() {
  std::vector<char> all(static_cast<size_t>(size_), 1);
  char own = 1;
  all_gather(&own, all.data(), 1);
}

void Communicator::point_to_point(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  std::vector<Message> others_in, own_in, others_out;
  for (const Message& message : receives) (message.peer == rank_ ? own_in : others_in).push_back(message);
  size_t matched = 0;
  for (const Message& message : sends) {
    if (message.peer != rank_) {
      others_out.push_back(message);
      continue;
    }
    if (matched >= own_in.size() || own_in[matched].bytes != message.bytes)
      throw Failure{synFailedHccl, "a message to oneself without its receiver"};
    std::memmove(own_in[matched++].data, message.data, message.bytes);
  }
  if (matched != own_in.size()) throw Failure{synFailedHccl, "a message from oneself without its sender"};
  exchange_all(others_out, others_in);
}

}  // namespace synapse_emulator
