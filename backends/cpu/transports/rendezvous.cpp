// SPDX-License-Identifier: Apache-2.0
#include "cpu/transports/rendezvous.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace transom::cpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::minutes(5);
constexpr auto kGuestPatience = std::chrono::seconds(10);  // a stranger that says nothing holds nobody up for longer
constexpr uint32_t kMostRanks = 65536, kMostBytes = 64 << 20;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + (errno ? std::string(": ") + std::strerror(errno) : ""));
}

class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Socket() {
    if (file_ >= 0) ::close(file_);
  }
  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_;
};

void wait_for(int file, short events, Clock::time_point end) {
  pollfd entry{file, events, 0};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    const int found = left > 0 ? ::poll(&entry, 1, static_cast<int>(left)) : 0;
    if (found > 0) return;
    if (found < 0 && errno == EINTR) continue;
    errno = 0;
    fail("the other ranks did not come in time");
  }
}

void send_all(int file, const void* data, size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(file, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("sending to the meeting of the ranks");
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void receive_all(int file, void* data, size_t bytes, Clock::time_point end) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    wait_for(file, POLLIN, end);
    const ssize_t got = ::recv(file, next, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) fail("the meeting of the ranks was broken off");
    next += got;
    bytes -= static_cast<size_t>(got);
  }
}

struct Hello {
  uint64_t nonce;
  uint32_t rank, ranks, bytes;
};

void serve(const Socket& listener, uint64_t nonce) {
  try {
    const Clock::time_point end = Clock::now() + kPatience;
    std::vector<Socket> guests;
    std::vector<std::vector<char>> brought;
    size_t met = 0;
    do {
      wait_for(listener.file(), POLLIN, end);
      Socket guest(::accept(listener.file(), nullptr, nullptr));
      if (!guest) continue;
      try {
        Hello hello{};
        const Clock::time_point soon = std::min(end, Clock::now() + kGuestPatience);
        receive_all(guest.file(), &hello, sizeof hello, soon);
        if (hello.nonce != nonce || hello.ranks == 0 || hello.ranks > kMostRanks || hello.rank >= hello.ranks ||
            hello.bytes > kMostBytes || (!guests.empty() && guests.size() != hello.ranks))
          continue;  // a stranger
        std::vector<char> data(hello.bytes);
        receive_all(guest.file(), data.data(), data.size(), soon);
        guests.resize(hello.ranks);
        brought.resize(hello.ranks);
        if (guests[hello.rank]) continue;
        guests[hello.rank] = std::move(guest);
        brought[hello.rank] = std::move(data);
        ++met;
      } catch (const std::runtime_error&) {
        continue;  // it said nothing that makes sense
      }
    } while (met == 0 || met < guests.size());
    std::vector<char> answer;
    for (const std::vector<char>& part : brought) {
      const auto bytes = static_cast<uint32_t>(part.size());
      answer.insert(answer.end(), reinterpret_cast<const char*>(&bytes),
                    reinterpret_cast<const char*>(&bytes) + sizeof bytes);
      answer.insert(answer.end(), part.begin(), part.end());
    }
    for (const Socket& guest : guests) send_all(guest.file(), answer.data(), answer.size());
  } catch (const std::exception&) {
    // The guests see closed connections.
  }
}

// IPv4, in network order: of GLOO_SOCKET_IFNAME, else of MASTER_ADDR, else the loopback.
uint32_t address_of_first() {
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME")) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) fail("the network interfaces cannot be listed");
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    for (const ifaddrs* item = list; item; item = item->ifa_next)
      if (item->ifa_addr && item->ifa_addr->sa_family == AF_INET && std::strcmp(item->ifa_name, name) == 0)
        return reinterpret_cast<const sockaddr_in*>(item->ifa_addr)->sin_addr.s_addr;
    errno = 0;
    fail(std::string("GLOO_SOCKET_IFNAME: no network interface of that name has an IPv4 address: ") + name);
  }
  const char* host = std::getenv("MASTER_ADDR");
  if (!host || !*host) return htonl(INADDR_LOOPBACK);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  errno = 0;
  if (::getaddrinfo(host, nullptr, &hints, &found) != 0 || !found)
    fail(std::string("MASTER_ADDR: expected a host with an IPv4 address, found ") + host);
  const uint32_t address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr;
  ::freeaddrinfo(found);
  return address;
}

sockaddr_in address_of(const MeetingPoint& point) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = point.address;
  address.sin_port = point.port;
  return address;
}

Socket connect_to(const MeetingPoint& point) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = address_of(point);
  if (!socket || ::connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("the meeting of the ranks cannot be reached");
  return socket;
}

}  // namespace

MeetingPoint open_meeting() {
  MeetingPoint point;
  std::random_device random;
  point.nonce = uint64_t{random()} << 32 | random();
  point.address = address_of_first();
  auto listener = std::make_shared<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(point);
  socklen_t length = sizeof address;
  if (!*listener || ::bind(listener->file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener->file(), 1024) != 0 ||
      ::getsockname(listener->file(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("rank 0 cannot listen at MASTER_ADDR (or GLOO_SOCKET_IFNAME)");
  point.port = address.sin_port;
  std::thread([listener, nonce = point.nonce] { serve(*listener, nonce); }).detach();
  return point;
}

std::string own_address(const MeetingPoint& point) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(point);
  socklen_t length = sizeof address;
  char text[INET_ADDRSTRLEN] = {};
  if (!socket || ::connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      !inet_ntop(AF_INET, &address.sin_addr, text, sizeof text))
    fail("no way to the meeting of the ranks");
  return text;
}

std::vector<std::vector<char>> meet(const MeetingPoint& point, uint32_t rank, uint32_t ranks,
                                    const std::vector<char>& mine) {
  const Socket socket = connect_to(point);
  const Hello hello{point.nonce, rank, ranks, static_cast<uint32_t>(mine.size())};
  send_all(socket.file(), &hello, sizeof hello);
  send_all(socket.file(), mine.data(), mine.size());
  const Clock::time_point end = Clock::now() + kPatience;
  std::vector<std::vector<char>> brought(ranks);
  for (std::vector<char>& part : brought) {
    uint32_t bytes = 0;
    receive_all(socket.file(), &bytes, sizeof bytes, end);
    if (bytes > kMostBytes) throw std::runtime_error("the meeting of the ranks gave more than an address");
    part.resize(bytes);
    receive_all(socket.file(), part.data(), part.size(), end);
  }
  return brought;
}

}  // namespace transom::cpu
