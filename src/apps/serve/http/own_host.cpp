// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/own_host.h"

namespace transom::serve {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

bool is_own_name(std::string name, const std::string& listening) {
  if (const size_t colon = name.rfind(':'); colon != name.npos && name.find(']', colon) == name.npos)
    name.resize(colon);
  name = lower_case(name);
  // What containers of Docker and Podman call the machine that they run on. Nobody can have a name of .internal in the
  // public DNS, so that no page of the Web reaches the server by it.
  const bool of_container = name == "host.docker.internal" || name == "host.containers.internal";
  return is_loopback(name) || of_container || name == lower_case(listening);
}

bool names_own_host(const HttpRequest& head, const std::string& listening) {
  const std::string* host = head.header("host");
  return !host || is_own_name(*host, listening);
}

}  // namespace transom::serve
