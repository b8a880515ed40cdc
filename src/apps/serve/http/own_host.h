// SPDX-License-Identifier: Apache-2.0
// Whether a request means this machine, for servers that listen for it alone.
#pragma once

#include <string>

#include "apps/serve/http/message.h"

namespace transom::serve {

// "localhost", "::1", "[::1]", 127.x.x.x.
bool is_loopback(const std::string& host);

// Whether a name with or without a port ("localhost:8000") is of this machine, or `listening`.
bool is_own_name(std::string name, const std::string& listening);

// Whether the Host header names this machine or `listening`, the address that the server was given; true without one. A
// page of another site could otherwise reach the server under a name of its own that it lets point here (DNS
// rebinding).
bool names_own_host(const HttpRequest& head, const std::string& listening);

}  // namespace transom::serve
