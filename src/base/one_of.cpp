// SPDX-License-Identifier: Apache-2.0
#include "transom/one_of.h"

#include "base/error.h"

namespace transom {

void refuse_option(std::string_view where, std::span<const std::string_view> known, std::string_view found) {
  std::string names;
  for (size_t i = 0; i < known.size(); ++i) {
    if (i > 0) names += i + 1 == known.size() ? " or " : ", ";
    names += known[i];
  }
  fail(ErrorKind::kUsage, "{}: expected {}, found {}", where, names, quoted(found));
}

}  // namespace transom
