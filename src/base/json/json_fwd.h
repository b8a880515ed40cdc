// SPDX-License-Identifier: Apache-2.0
// The name of Json for headers that only pass it on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace transom {
using Json = nlohmann::ordered_json;
}
