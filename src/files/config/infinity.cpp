// SPDX-License-Identifier: Apache-2.0
#include "files/config/infinity.h"

#include "base/json/json.h"

namespace transom {

bool is_infinity(const Json& value) {
  const Json& word = value.is_object() && value.contains("__float__") ? value["__float__"] : value;
  return word.is_string() && word == "Infinity";
}

}  // namespace transom
