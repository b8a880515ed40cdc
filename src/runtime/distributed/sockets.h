// SPDX-License-Identifier: Apache-2.0
// TCP connections and the frames that go over them. A frame is a mark, a kind, a length and its contents; what does not
// look like one ends the connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace transom {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  void shut();  // both directions: whoever waits on it is woken
  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_;
};

// From now on a peer that does not acknowledge what is sent, or is not there when it is asked, ends the connection
// after about so long: a lost network or server gives no other sign.
void expect_answers(const Socket& socket, Clock::duration patience);

// Lets this process open so many files where its hard limit allows it; says so where it does not.
void allow_files(uint64_t count);

// Throws an Error that names the address.
Socket listen_at(const std::string& host, uint16_t port);
// Tries again until `end`, since the other side may not be there yet.
Socket connect_to(const std::string& host, uint16_t port, Clock::time_point end);

enum class FrameKind : uint32_t {
  kHello = 1,
  kWelcome,
  kGather,
  kAll,
  kFailure,
  kLost,
  kBye,
  kHeartbeat,
  kGroupExchange,
  kGroupAnswer,
  kProgress
};

struct Frame {
  FrameKind kind{};
  std::string contents;
};

std::string bytes_of_frame(FrameKind kind, std::string_view contents);
// Returns when all is sent; false where the other side is gone.
bool send_frame(const Socket& socket, FrameKind kind, std::string_view contents);
// Sends a frame (a heartbeat) unless that would wait: then other bytes are on their way.
void send_if_idle(const Socket& socket, FrameKind kind, std::string_view contents = {});

// Puts frames together from what comes in.
class FrameReader {
 public:
  explicit FrameReader(uint64_t limit) : limit_(limit) {}
  void set_limit(uint64_t limit) { limit_ = limit; }
  // Takes what the socket has, waiting only if it has nothing and waits at all; false at its end, with errno 0, when it
  // fails, or when what came is no frame.
  bool read(const Socket& socket);
  std::optional<Frame> next();

 private:
  uint64_t limit_;  // bytes of a frame's contents
  std::string buffer_;
  bool bad_ = false;
};

}  // namespace transom
