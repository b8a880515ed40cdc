// SPDX-License-Identifier: Apache-2.0
// Numbers of things in sentences.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace transom {

// "1 class", "3 classes", "2 rows".
inline std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with('s') ? "es" : "s");
}

}  // namespace transom
