// SPDX-License-Identifier: Apache-2.0
// The paths for who operates a server: health, version, metrics.
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

std::vector<Route> operations_routes();

}  // namespace transom::serve
