// SPDX-License-Identifier: Apache-2.0
#include "distributed/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

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

void send_at_once(const Socket& socket) {
  const int one = 1;
  ::setsockopt(socket.file(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

}  // namespace

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
    if (socket && ::bind(socket.file(), item->ai_addr, item->ai_addrlen) == 0 && ::listen(socket.file(), 1024) == 0)
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
        send_at_once(socket);
        return socket;
      }
      reason = errno;
    }
    if (Clock::now() + kPause > end)
      fail("rank 0 was not reached at {}:{} in time: {}", host, port, std::strerror(reason));
    std::this_thread::sleep_for(kPause);
  }
}

bool send_frame(const Socket& socket, FrameKind kind, std::string_view contents) {
  const Header header{kMark, static_cast<uint32_t>(kind), contents.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += contents;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t sent = ::send(socket.file(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

bool FrameReader::read(const Socket& socket) {
  char piece[65536];
  ssize_t got;
  do got = ::recv(socket.file(), piece, sizeof piece, 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  buffer_.append(piece, static_cast<size_t>(got));
  if (buffer_.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, buffer_.data(), sizeof header);
    bad_ |= header.mark != kMark || header.length > limit_;
  }
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
