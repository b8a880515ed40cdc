// SPDX-License-Identifier: Apache-2.0
#include "cpu/transports/rendezvous.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
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
constexpr auto kGuestPatience =
    std::chrono::seconds(10);  // an unknown peer that says nothing holds nobody up for longer
constexpr auto kAcceptPause = std::chrono::milliseconds(50);  // where no file is left for a connection
constexpr uint32_t kMostRanks = 65536, kMostBytes = 64 << 20;
constexpr uint32_t kDefaultTimeout = 1800;  // seconds

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
  uint32_t rank, ranks;
  uint64_t bytes;  // of all parts, with their lengths
};
static_assert(sizeof(Hello) == 24, "no byte of it is left as memory had it");

void append(Bytes& bytes, const Bytes& part) {
  const auto length = static_cast<uint32_t>(part.size());
  bytes.insert(bytes.end(), reinterpret_cast<const char*>(&length),
               reinterpret_cast<const char*>(&length) + sizeof length);
  bytes.insert(bytes.end(), part.begin(), part.end());
}

// Parts with their lengths in front; throws where the bytes are not `count` of them.
std::vector<Bytes> parts_of(const Bytes& bytes, uint32_t count) {
  errno = 0;
  std::vector<Bytes> parts(count);
  size_t at = 0;
  for (Bytes& part : parts) {
    uint32_t length = 0;
    if (bytes.size() - at < sizeof length) fail("expected a part for each rank");
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (bytes.size() - at < length) fail("a part is longer than what came");
    part.assign(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + length));
    at += length;
  }
  if (at != bytes.size()) fail("expected a part for each rank, found more");
  return parts;
}

// Each rank gets its column.
void answer(const std::vector<Socket>& peers, const std::vector<std::vector<Bytes>>& brought) {
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    Bytes column;
    for (const std::vector<Bytes>& parts : brought) append(column, parts[rank]);
    const uint64_t bytes = column.size();
    try {
      send_all(peers[rank].file(), &bytes, sizeof bytes);
      send_all(peers[rank].file(), column.data(), column.size());
    } catch (const std::runtime_error&) {
      continue;  // it is gone; the others learn of it from whom it was to be connected to
    }
  }
}

void serve(const Socket& listener, const MeetingPoint& point) {
  try {
    const Clock::time_point end = Clock::now() + std::chrono::seconds(point.timeout);
    std::vector<Socket> peers;
    std::vector<std::vector<Bytes>> brought;
    size_t met = 0;
    do {
      wait_for(listener.file(), POLLIN, end);
      Socket peer(::accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) {  // at once the same would be said again
        std::this_thread::sleep_for(kAcceptPause);
        continue;
      }
      const timeval limit{.tv_sec = kGuestPatience.count(), .tv_usec = 0};
      ::setsockopt(peer.file(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      try {
        Hello hello{};
        const Clock::time_point soon = std::min(end, Clock::now() + kGuestPatience);
        receive_all(peer.file(), &hello, sizeof hello, soon);
        if (hello.nonce != point.nonce || hello.ranks == 0 || hello.ranks > kMostRanks || hello.rank >= hello.ranks ||
            hello.bytes > kMostBytes || (!peers.empty() && peers.size() != hello.ranks))
          continue;  // unknown
        Bytes data(hello.bytes);
        receive_all(peer.file(), data.data(), data.size(), soon);
        std::vector<Bytes> parts = parts_of(data, hello.ranks);
        peers.resize(hello.ranks);
        brought.resize(hello.ranks);
        if (peers[hello.rank]) continue;
        peers[hello.rank] = std::move(peer);
        brought[hello.rank] = std::move(parts);
        ++met;
      } catch (const std::runtime_error&) {
        continue;  // it said nothing that makes sense
      }
    } while (met == 0 || met < peers.size());
    answer(peers, brought);
  } catch (const std::exception&) {
    // The peers see closed connections.
  }
}

// IPv4, in network order: of GLOO_SOCKET_IFNAME, else of rank 0's address as the host knows it, else of MASTER_ADDR,
// else the loopback.
uint32_t address_of_first(const std::string& known) {
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
  const char* variable = std::getenv("MASTER_ADDR");
  const std::string host = !known.empty() ? known : variable ? variable : "";
  if (host.empty()) return htonl(INADDR_LOOPBACK);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  errno = 0;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0 || !found)
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

MeetingPoint open_meeting(const GroupOptions& options) {
  MeetingPoint point;
  std::random_device random;
  point.nonce = uint64_t{random()} << 32 | random();
  point.address = address_of_first(options.address);
  point.timeout = options.timeout > 0 ? options.timeout : kDefaultTimeout;
  auto listener = std::make_shared<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = address_of(point);
  socklen_t length = sizeof address;
  if (!*listener || ::bind(listener->file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener->file(), SOMAXCONN) != 0 ||
      ::getsockname(listener->file(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("rank 0 cannot listen at MASTER_ADDR (or GLOO_SOCKET_IFNAME)");
  point.port = address.sin_port;
  std::thread([listener, point] { serve(*listener, point); }).detach();
  return point;
}

void write_id(const MeetingPoint& point, unsigned char* id, size_t bytes) {
  if (bytes < sizeof point) throw std::runtime_error("the id is too short");
  std::memcpy(id, &point, sizeof point);
}

MeetingPoint read_id(const unsigned char* id, size_t bytes) {
  MeetingPoint point;
  if (bytes < sizeof point) throw std::runtime_error("the id is too short");
  std::memcpy(&point, id, sizeof point);
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

Met meet(const MeetingPoint& point, uint32_t rank, const std::vector<Bytes>& parts) {
  const auto ranks = static_cast<uint32_t>(parts.size());
  Bytes mine;
  for (const Bytes& part : parts) append(mine, part);
  const Socket socket = connect_to(point);
  const Hello hello{point.nonce, rank, ranks, mine.size()};
  send_all(socket.file(), &hello, sizeof hello);
  send_all(socket.file(), mine.data(), mine.size());
  const Clock::time_point end = Clock::now() + std::chrono::seconds(point.timeout);
  uint64_t bytes = 0;
  receive_all(socket.file(), &bytes, sizeof bytes, end);
  if (bytes > kMostBytes) throw std::runtime_error("the meeting of the ranks gave more than addresses");
  Bytes column(bytes);
  receive_all(socket.file(), column.data(), column.size(), end);
  return {parts_of(column, ranks), bytes + sizeof bytes};
}

}  // namespace transom::cpu
