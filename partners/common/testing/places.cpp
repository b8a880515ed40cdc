// SPDX-License-Identifier: Apache-2.0
#include "testing/places.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace transom::test {
namespace {

// Before the first test; what is set already stands.
[[maybe_unused]] const bool environment_is_set = [] {
  std::string_view rest = PARTNER_ENVIRONMENT;  // name=value|name=value
  while (!rest.empty()) {
    const std::string_view each = rest.substr(0, rest.find('|'));
    if (const size_t equals = each.find('='); equals != each.npos)
      ::setenv(std::string(each.substr(0, equals)).c_str(), std::string(each.substr(equals + 1)).c_str(), 0);
    rest.remove_prefix(std::min(each.size() + 1, rest.size()));
  }
  return true;
}();

}  // namespace

std::string program_path() { return PARTNER_PROGRAM; }
std::string partner_folder() { return PARTNER_FOLDER; }

std::string golden_folder() {
  const char* given = std::getenv("TRANSOM_GOLDEN_CASES");
  return given ? given : PARTNER_FOLDER "/../../build/release/golden";
}

}  // namespace transom::test
