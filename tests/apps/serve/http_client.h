// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 client over a socket, which can also send what no client should.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "apps/serve/http/message.h"

namespace transom::test {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class Client {
 public:
  explicit Client(uint16_t port) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
    const int one = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void shut_writing() { ::shutdown(socket_, SHUT_WR); }

  // False if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // More bytes into the buffer; false at the end, or when `seconds` are over.
  bool receive(double seconds = 20) {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(count));
    return true;
  }
  const std::string& buffer() const { return buffer_; }
  bool closed(double seconds = 5) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) {
      pollfd wait{socket_, POLLIN, 0};
      if (::poll(&wait, 1, 100) <= 0) continue;
      char bytes[16384];
      if (::recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
    }
    return false;
  }

  bool send_request(const std::string& method, const std::string& path, const std::string& body = "",
                    const std::string& headers = "") {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
    if (!body.empty() || method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return send(text + "\r\n" + body);
  }

  // The next answer; of a HEAD without its body. Throws if the connection ends before it is whole.
  Answer read_answer(bool head_only = false, double seconds = 30) {
    Answer answer;
    const std::string head = take_until("\r\n\r\n", seconds);
    answer.status = std::stoi(head.substr(head.find(' ') + 1, 3));
    for (size_t at = head.find("\r\n"); at != head.npos && at + 2 < head.size();) {
      const size_t end = std::min(head.find("\r\n", at + 2), head.size());
      const std::string line = head.substr(at + 2, end - at - 2);
      const size_t colon = line.find(':');
      if (colon != line.npos)
        answer.headers[serve::lower_case(line.substr(0, colon))] = std::string(serve::trimmed(line.substr(colon + 1)));
      at = end;
    }
    if (answer.status == 100) return read_answer(head_only, seconds);
    if (head_only || answer.status == 204) return answer;
    if (answer.headers.contains("content-length")) {
      answer.body = take(std::stoul(answer.headers["content-length"]), seconds);
    } else if (answer.headers.contains("transfer-encoding")) {
      while (true) {
        const size_t size = std::stoul(take_until("\r\n", seconds), nullptr, 16);
        answer.body += take(size, seconds);
        take(2, seconds);
        if (size == 0) break;
      }
    } else {
      while (receive(seconds)) {
      }
      answer.body = std::move(buffer_);
    }
    return answer;
  }

  Answer get(const std::string& path, const std::string& headers = "") {
    send_request("GET", path, "", headers);
    return read_answer();
  }
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    send_request("POST", path, body, "Content-Type: application/json\r\n" + headers);
    return read_answer();
  }

 private:
  std::string take_until(std::string_view end, double seconds) {
    size_t found = 0;
    while ((found = buffer_.find(end)) == buffer_.npos)
      if (!receive(seconds)) throw std::runtime_error("the connection ended, or nothing came");
    std::string text = buffer_.substr(0, found);
    buffer_.erase(0, found + end.size());
    return text;
  }
  std::string take(size_t count, double seconds) {
    while (buffer_.size() < count)
      if (!receive(seconds)) throw std::runtime_error("the connection ended, or nothing came");
    std::string text = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return text;
  }

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace transom::test
