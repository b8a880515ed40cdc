// SPDX-License-Identifier: Apache-2.0
#include "sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

namespace emulator_common {
namespace {

using Time = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& text) { throw GroupError{GroupError::kSocket, text}; }

int milliseconds_until(Time::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Time::now()).count();
  return left < 0 ? 0 : static_cast<int>(left) + 1;
}

void wait_for(int file, short events, Time::time_point end) {
  for (;;) {
    pollfd entry = {file, events, 0};
    const int found = poll(&entry, 1, milliseconds_until(end));
    if (found > 0) return;
    if (found == 0 && Time::now() >= end)
      throw GroupError{GroupError::kTimeout, "no answer of another rank within the time limit"};
    if (found < 0 && errno != EINTR) fail(std::strerror(errno));
  }
}

void prepare(int file) {
  const int one = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

sockaddr_in socket_address(const Endpoint& endpoint) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = endpoint.address;
  address.sin_port = endpoint.port;
  return address;
}

Time::time_point after(double seconds) {
  return Time::now() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
}

constexpr uint64_t kMagic = 0x5452414E534F4D31;
struct Header {
  uint64_t magic, bytes;
};

// What is left of a message: the header, then the data.
struct Transfer {
  Message message;
  Header header;
  uint64_t done = 0;  // bytes, the header included
  uint64_t total() const { return sizeof(Header) + message.bytes; }
  char* next(uint64_t& count) {
    if (done < sizeof(Header)) {
      count = sizeof(Header) - done;
      return reinterpret_cast<char*>(&header) + done;
    }
    count = total() - done;
    return message.data + (done - sizeof(Header));
  }
};

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    file_ = other.file_;
    other.file_ = -1;
  }
  return *this;
}

void Socket::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void Socket::shut() {
  if (file_ >= 0) ::shutdown(file_, SHUT_RDWR);
}

uint32_t own_address(const char* variable) {
  const char* name = std::getenv(variable);
  if (!name || !*name) return htonl(INADDR_LOOPBACK);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail(std::strerror(errno));
  uint32_t found = 0;
  for (const ifaddrs* entry = list; entry && !found; entry = entry->ifa_next)
    if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET && std::strcmp(entry->ifa_name, name) == 0)
      found = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr;
  freeifaddrs(list);
  if (!found) fail(std::string(variable) + "=" + name + ": no such interface with an IPv4 address");
  return found;
}

Socket listen_at(Endpoint& endpoint) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.is_open()) fail(std::strerror(errno));
  const int one = 1;
  setsockopt(listener.file(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address = socket_address(endpoint);
  if (bind(listener.file(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.file(), 256) != 0)
    fail(std::string("cannot listen: ") + std::strerror(errno));
  socklen_t length = sizeof address;
  getsockname(listener.file(), reinterpret_cast<sockaddr*>(&address), &length);
  endpoint.port = address.sin_port;
  return listener;
}

Socket accept_from(const Socket& listener, double seconds) {
  wait_for(listener.file(), POLLIN, after(seconds));
  Socket accepted(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.is_open()) fail(std::strerror(errno));
  prepare(accepted.file());
  return accepted;
}

Socket connect_to(const Endpoint& endpoint, double seconds) {
  const auto end = after(seconds);
  for (;;) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made.is_open()) fail(std::strerror(errno));
    prepare(made.file());
    sockaddr_in address = socket_address(endpoint);
    int error = 0;
    if (connect(made.file(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        wait_for(made.file(), POLLOUT, end);
        socklen_t length = sizeof error;
        getsockopt(made.file(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
    if (error == 0) return made;
    if (Time::now() >= end) fail(std::string("cannot connect to another rank: ") + std::strerror(error));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it may not listen yet
  }
}

void send_all(const Socket& socket, const void* data, size_t bytes, double seconds) {
  const auto end = after(seconds);
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    wait_for(socket.file(), POLLOUT, end);
    const ssize_t sent = send(socket.file(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
    if (sent > 0) {
      from += sent;
      bytes -= static_cast<size_t>(sent);
    }
  }
}

void receive_all(const Socket& socket, void* data, size_t bytes, double seconds) {
  const auto end = after(seconds);
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    wait_for(socket.file(), POLLIN, end);
    const ssize_t received = recv(socket.file(), to, bytes, 0);
    if (received == 0) fail("another rank closed its connection");
    if (received < 0 && errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
    if (received > 0) {
      to += received;
      bytes -= static_cast<size_t>(received);
    }
  }
}

void exchange(const std::vector<Socket>& sockets, const std::vector<Message>& sends,
              const std::vector<Message>& receives, double seconds) {
  std::vector<std::deque<Transfer>> out(sockets.size()), in(sockets.size());
  for (const Message& message : sends)
    out[static_cast<size_t>(message.peer)].push_back({message, {kMagic, message.bytes}});
  for (const Message& message : receives) in[static_cast<size_t>(message.peer)].push_back({message, {}});
  auto end = after(seconds);
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<size_t> peers;
    for (size_t peer = 0; peer < sockets.size(); ++peer) {
      const short events = static_cast<short>((out[peer].empty() ? 0 : POLLOUT) | (in[peer].empty() ? 0 : POLLIN));
      if (!events) continue;
      if (!sockets[peer].is_open()) fail("rank " + std::to_string(peer) + " is not connected");
      entries.push_back({sockets[peer].file(), events, 0});
      peers.push_back(peer);
    }
    if (entries.empty()) return;
    const int ready = poll(entries.data(), entries.size(), milliseconds_until(end));
    if (ready < 0 && errno != EINTR) fail(std::strerror(errno));
    if (ready == 0 && Time::now() >= end)
      throw GroupError{GroupError::kTimeout,
                       "rank " + std::to_string(peers[0]) + " did not answer within the time limit"};
    for (size_t i = 0; ready > 0 && i < entries.size(); ++i) {
      const size_t peer = peers[i];
      const std::string name = "rank " + std::to_string(peer);
      if ((entries[i].revents & (POLLOUT | POLLERR | POLLHUP)) && !out[peer].empty()) {
        Transfer& transfer = out[peer].front();
        uint64_t count = 0;
        const char* from = transfer.next(count);
        const ssize_t sent = send(sockets[peer].file(), from, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) fail(name + " is gone: " + std::strerror(errno));
        if (sent > 0) {
          transfer.done += static_cast<uint64_t>(sent);
          end = after(seconds);
        }
        if (transfer.done == transfer.total()) out[peer].pop_front();
      }
      if ((entries[i].revents & (POLLIN | POLLERR | POLLHUP)) && !in[peer].empty()) {
        Transfer& transfer = in[peer].front();
        uint64_t count = 0;
        char* to = transfer.next(count);
        const ssize_t received = count == 0 ? 0 : recv(sockets[peer].file(), to, count, 0);
        if (received == 0 && count > 0) fail(name + " is gone: it closed its connection");
        if (received < 0 && errno != EAGAIN && errno != EINTR) fail(name + " is gone: " + std::strerror(errno));
        if (received > 0) {
          transfer.done += static_cast<uint64_t>(received);
          end = after(seconds);
        }
        if (transfer.done >= sizeof(Header)) {
          if (transfer.header.magic != kMagic || transfer.header.bytes != transfer.message.bytes)
            throw GroupError{GroupError::kUsage, name + " sent " + std::to_string(transfer.header.bytes) +
                                                     " bytes, expected " + std::to_string(transfer.message.bytes) +
                                                     ": the ranks call different things"};
          if (transfer.done == transfer.total()) in[peer].pop_front();
        }
      }
    }
  }
}

}  // namespace emulator_common
