// SPDX-License-Identifier: Apache-2.0
#include "cpu/transports/group_id.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

namespace transom::cpu {
namespace {

constexpr uint32_t kDefaultTimeout = 1800;  // seconds

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + (errno ? std::string(": ") + std::strerror(errno) : ""));
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

}  // namespace

GroupId make_group_id(const GroupOptions& options) {
  std::random_device random;
  return {.nonce = uint64_t{random()} << 32 | random(),
          .address = address_of_first(options.address),
          .timeout = options.timeout > 0 ? options.timeout : kDefaultTimeout};
}

void write_id(const GroupId& group, unsigned char* id, size_t bytes) {
  if (bytes < sizeof group) throw std::runtime_error("the id is too short");
  std::memcpy(id, &group, sizeof group);
}

GroupId read_id(const unsigned char* id, size_t bytes) {
  GroupId group;
  if (bytes < sizeof group) throw std::runtime_error("the id is too short");
  std::memcpy(&group, id, sizeof group);
  return group;
}

std::string own_address(const GroupId& group) {
  constexpr uint16_t kAnyPort = 9;  // nothing is sent
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = group.address;
  address.sin_port = htons(kAnyPort);
  socklen_t length = sizeof address;
  char text[INET_ADDRSTRLEN] = {};
  const int file = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool found = file >= 0 && ::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     ::getsockname(file, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                     inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  const int reason = errno;
  if (file >= 0) ::close(file);
  errno = reason;
  if (!found) fail("no way to the server of rank 0");
  return text;
}

}  // namespace transom::cpu
