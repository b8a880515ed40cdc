// SPDX-License-Identifier: Apache-2.0
// Where a server is: http://host:port/path, https too.
#pragma once

#include <string>
#include <string_view>

namespace transom::client {

struct HttpUrl {
  bool secure = false;
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;  // "" or "/v1", without a slash at its end

  // "localhost:8000", as the Host header has it.
  std::string authority() const;
  std::string text() const;
};

// Reads a URL; without a scheme it is http. Refuses (kUsage, with `where` at the front) other schemes, names of users,
// queries, fragments, ports beyond 65535 and characters that no header may hold.
HttpUrl parse_http_url(std::string_view text, std::string_view where);

}  // namespace transom::client
