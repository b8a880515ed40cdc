// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include <cstring>
#include <memory>
#include <random>
#include <thread>

namespace emulator_common {
namespace {

// What each rank tells the meeting point, and the others.
struct Hello {
  uint64_t nonce;
  int32_t rank, size;
  Endpoint endpoint;
};

// Collects the greetings of all ranks and gives everybody the list.
void serve_meeting(const Socket& listener, uint64_t nonce, double seconds) {
  try {
    std::vector<Socket> ranks;
    std::vector<Hello> hellos;
    size_t met = 0;
    do {
      Socket guest = accept_from(listener, seconds);
      Hello hello = {};
      receive_all(guest, &hello, sizeof hello, seconds);
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
    for (const Socket& rank : ranks) send_all(rank, hellos.data(), hellos.size() * sizeof(Hello), seconds);
  } catch (const GroupError&) {
    // The guests see closed connections.
  }
}

}  // namespace

Meeting open_meeting(const Endpoint& endpoint, uint64_t nonce, double seconds) {
  Meeting meeting{nonce, endpoint};
  auto listener = std::make_shared<Socket>(listen_at(meeting.endpoint));
  std::thread([listener, nonce, seconds] { serve_meeting(*listener, nonce, seconds); }).detach();
  return meeting;
}

Meeting open_meeting(uint32_t address, double seconds) {
  std::random_device random;
  return open_meeting({address, 0}, uint64_t{random()} << 32 | random(), seconds);
}

Group::Group(const Meeting& meeting, int rank, int size, uint32_t address, double seconds)
    : rank_(rank), size_(size), seconds_(seconds) {
  sockets_.resize(static_cast<size_t>(size));
  Endpoint own;
  own.address = address;
  const Socket listener = listen_at(own);
  const Hello hello = {meeting.nonce, rank, size, own};
  const Socket meeting_point = connect_to(meeting.endpoint, seconds);
  send_all(meeting_point, &hello, sizeof hello, seconds);
  std::vector<Hello> all(static_cast<size_t>(size));
  receive_all(meeting_point, all.data(), all.size() * sizeof(Hello), seconds);
  for (int peer = 0; peer < rank; ++peer) {
    sockets_[static_cast<size_t>(peer)] = connect_to(all[static_cast<size_t>(peer)].endpoint, seconds);
    send_all(sockets_[static_cast<size_t>(peer)], &hello, sizeof hello, seconds);
  }
  for (int missing = size - rank - 1; missing > 0; --missing) {
    Socket guest = accept_from(listener, seconds);
    Hello found = {};
    receive_all(guest, &found, sizeof found, seconds);
    const bool fits = found.nonce == meeting.nonce && found.rank > rank && found.rank < size &&
                      !sockets_[static_cast<size_t>(found.rank)].is_open();
    if (!fits) throw GroupError{GroupError::kUsage, "a connection of a rank that was not expected"};
    sockets_[static_cast<size_t>(found.rank)] = std::move(guest);
  }
}

void Group::shut() {
  for (Socket& socket : sockets_) socket.shut();
}

void Group::exchange_all(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  exchange(sockets_, sends, receives, seconds_);
}

std::vector<const char*> Group::parts_of(const char* own, const std::vector<std::vector<char>>& others) const {
  std::vector<const char*> parts;
  for (int rank = 0; rank < size_; ++rank)
    parts.push_back(rank == rank_ ? own : others[static_cast<size_t>(rank)].data());
  return parts;
}

void Group::all_reduce(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine) {
  // Each rank combines one piece of all, then gives it to everybody.
  const auto ranks = static_cast<uint64_t>(size_);
  const auto begin = [&](uint64_t rank) { return count * rank / ranks; };
  const auto own = static_cast<uint64_t>(rank_);
  const uint64_t own_count = begin(own + 1) - begin(own);
  std::vector<std::vector<char>> pieces(ranks);
  std::vector<Message> sends, receives;
  for (uint64_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    pieces[peer].resize(own_count * element);
    sends.push_back({static_cast<int>(peer), send + begin(peer) * element, (begin(peer + 1) - begin(peer)) * element});
    receives.push_back({static_cast<int>(peer), pieces[peer].data(), own_count * element});
  }
  exchange_all(sends, receives);
  std::vector<char> combined(own_count * element);
  combine(parts_of(send + begin(own) * element, pieces), combined.data(), own_count);
  if (own_count > 0) std::memcpy(receive + begin(own) * element, combined.data(), combined.size());
  sends.clear();
  receives.clear();
  for (uint64_t peer = 0; peer < ranks; ++peer) {
    if (peer == own) continue;
    sends.push_back({static_cast<int>(peer), combined.data(), combined.size()});
    receives.push_back(
        {static_cast<int>(peer), receive + begin(peer) * element, (begin(peer + 1) - begin(peer)) * element});
  }
  exchange_all(sends, receives);
}

void Group::reduce(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine, int root) {
  const uint64_t bytes = count * element;
  if (rank_ != root) return exchange_all({{root, send, bytes}}, {});
  std::vector<std::vector<char>> all(static_cast<size_t>(size_));
  std::vector<Message> receives;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    all[static_cast<size_t>(peer)].resize(bytes);
    receives.push_back({peer, all[static_cast<size_t>(peer)].data(), bytes});
  }
  exchange_all({}, receives);
  combine(parts_of(send, all), receive, count);
}

void Group::reduce_scatter(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine) {
  const uint64_t bytes = count * element;
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
  combine(parts_of(send + static_cast<uint64_t>(rank_) * bytes, all), combined.data(), count);
  if (bytes > 0) std::memcpy(receive, combined.data(), bytes);
}

void Group::all_gather(char* send, char* receive, uint64_t bytes) {
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

void Group::broadcast(char* send, char* receive, uint64_t bytes, int root) {
  std::vector<Message> sends;
  if (rank_ != root) return exchange_all({}, {{root, receive, bytes}});
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) sends.push_back({peer, send, bytes});
  if (send != receive && bytes > 0) std::memmove(receive, send, bytes);
  exchange_all(sends, {});
}

void Group::all_to_all(char* send, char* receive, uint64_t bytes) {
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

void Group::barrier() {
  std::vector<char> all(static_cast<size_t>(size_), 1);
  char own = 1;
  all_gather(&own, all.data(), 1);
}

void Group::point_to_point(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  std::vector<Message> others_in, own_in, others_out;
  for (const Message& message : receives) (message.peer == rank_ ? own_in : others_in).push_back(message);
  size_t matched = 0;
  for (const Message& message : sends) {
    if (message.peer != rank_) {
      others_out.push_back(message);
      continue;
    }
    if (matched >= own_in.size() || own_in[matched].bytes != message.bytes)
      throw GroupError{GroupError::kUsage, "a message to oneself without its receiver"};
    std::memmove(own_in[matched++].data, message.data, message.bytes);
  }
  if (matched != own_in.size()) throw GroupError{GroupError::kUsage, "a message from oneself without its sender"};
  exchange_all(others_out, others_in);
}

}  // namespace emulator_common
