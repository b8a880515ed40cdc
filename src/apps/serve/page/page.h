// SPDX-License-Identifier: Apache-2.0
// GET /: a page on which a person talks to the models of this server. It is one file without anything from elsewhere,
// under a content security policy that lets nothing else run.
#pragma once

#include <string>
#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

// The document, and the header Content-Security-Policy that allows its script and style by their digests alone.
struct Page {
  std::string document, policy;
};
const Page& page_of_server();

std::vector<Route> page_routes();

}  // namespace transom::serve
