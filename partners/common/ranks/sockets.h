// SPDX-License-Identifier: Apache-2.0
// TCP between the ranks of a group. Every wait has a limit; what goes wrong is thrown as GroupError.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emulator_common {

struct GroupError {
  enum Kind { kSocket, kTimeout, kUsage } kind;  // kUsage: the ranks do not call the same
  std::string text;
};

// A socket that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int file() const { return file_; }
  bool is_open() const { return file_ >= 0; }
  void close();
  // Ends the connection for both sides; waits of other threads on it end.
  void shut();

 private:
  int file_ = -1;
};

struct Endpoint {
  uint32_t address = 0;  // IPv4, network order
  uint16_t port = 0;     // network order
};

// The address that other processes reach this one at: of the interface that the variable of the environment names, else
// the loopback.
uint32_t own_address(const char* variable);
// Listens at `endpoint` (port 0: any) and fills in the port.
Socket listen_at(Endpoint& endpoint);
Socket accept_from(const Socket& listener, double seconds);
Socket connect_to(const Endpoint& endpoint, double seconds);
void send_all(const Socket& socket, const void* data, size_t bytes, double seconds);
void receive_all(const Socket& socket, void* data, size_t bytes, double seconds);

// A message between ranks.
struct Message {
  int peer;
  char* data;  // of a sent one: not changed
  uint64_t bytes;
};
// Sends and receives all messages at once; those of one peer in their order. `sockets`: one for each rank. Fails when a
// peer is gone, sends another size than expected, or nothing moves for `seconds`.
void exchange(const std::vector<Socket>& sockets, const std::vector<Message>& sends,
              const std::vector<Message>& receives, double seconds);

}  // namespace emulator_common
