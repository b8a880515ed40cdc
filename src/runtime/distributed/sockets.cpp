// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/terminal/log.h"

namespace transom {
namespace {

constexpr uint32_t kMark = 0x4D5354A7;
constexpr auto kPause = std::chrono::milliseconds(50);  // between two attempts to connect

struct Header {
  uint32_t mark;
  uint32_t kind;
  uint64_t length;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); status != 0)
    fail("MASTER_ADDR: expected the address of rank 0, found {}: {}", quoted(host), ::gai_strerror(status));
  return {found, ::freeaddrinfo};
}

void set(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.file(), level, option, &value, sizeof value);
}

bool send_all(const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

void expect_answers(const Socket& socket, Clock::duration patience) {
  const auto milliseconds = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  const int step = std::max(1, milliseconds / 4000);  // seconds
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, step);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, step);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
}

void allow_files(uint64_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, count);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < count)
    log(LogLevel::kWarning,
        fmt::format("this process may open {} files, but its ranks need about {}; raise the limit with ulimit -n or "
                    "LimitNOFILE",
                    limit.rlim_cur, count));
}

void Socket::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void Socket::shut() {
  if (file_ >= 0) ::shutdown(file_, SHUT_RDWR);
}

Socket listen_at(const std::string& host, uint16_t port) {
  const Addresses addresses = look_up(host, port);
  int reason = 0;
  for (const addrinfo* item = addresses.get(); item; item = item->ai_next) {
    Socket socket(::socket(item->ai_family, item->ai_socktype | SOCK_CLOEXEC, item->ai_protocol));
    const int one = 1;
    if (socket) ::setsockopt(socket.file(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (socket && ::bind(socket.file(), item->ai_addr, item->ai_addrlen) == 0 &&
        ::listen(socket.file(), SOMAXCONN) == 0)
      return socket;
    reason = errno;
  }
  fail("rank 0 cannot listen at {}:{}: {}{}", host, port, std::strerror(reason),
       reason == EADDRINUSE ? "; another job may use the port: set MASTER_PORT" : "");
}

Socket connect_to(const std::string& host, uint16_t port, Clock::time_point end) {
  const Addresses addresses = look_up(host, port);
  while (true) {
    int reason = 0;
    for (const addrinfo* item = addresses.get(); item; item = item->ai_next) {
      Socket socket(::socket(item->ai_family, item->ai_socktype | SOCK_CLOEXEC, item->ai_protocol));
      if (socket && ::connect(socket.file(), item->ai_addr, item->ai_addrlen) == 0) {
        set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
        return socket;
      }
      reason = errno;
    }
    if (Clock::now() + kPause > end)
      fail("rank 0 was not reached at {}:{} in time: {}", host, port, std::strerror(reason));
    std::this_thread::sleep_for(kPause);
  }
}

std::string bytes_of_frame(FrameKind kind, std::string_view contents) {
  const Header header{kMark, static_cast<uint32_t>(kind), contents.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += contents;
  return bytes;
}

bool send_frame(const Socket& socket, FrameKind kind, std::string_view contents) {
  return send_all(socket, bytes_of_frame(kind, contents));
}

void send_if_idle(const Socket& socket, FrameKind kind, std::string_view contents) {
  const std::string bytes = bytes_of_frame(kind, contents);
  const ssize_t sent = ::send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) send_all(socket, std::string_view(bytes).substr(static_cast<size_t>(sent)));
}

bool FrameReader::read(const Socket& socket) {
  char piece[65536];
  ssize_t got;
  do got = ::recv(socket.file(), piece, sizeof piece, 0);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (got == 0) errno = 0;
  if (got <= 0) return false;
  buffer_.append(piece, static_cast<size_t>(got));
  if (buffer_.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, buffer_.data(), sizeof header);
    bad_ |= header.mark != kMark || header.length > limit_;
  }
  if (bad_) errno = 0;
  return !bad_;
}

std::optional<Frame> FrameReader::next() {
  Header header;
  if (bad_ || buffer_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, buffer_.data(), sizeof header);
  bad_ = header.mark != kMark || header.length > limit_;
  if (bad_ || buffer_.size() - sizeof header < header.length) return std::nullopt;
  Frame frame{static_cast<FrameKind>(header.kind), buffer_.substr(sizeof header, header.length)};
  buffer_.erase(0, sizeof header + header.length);
  return frame;
}

}  // namespace transom
