// SPDX-License-Identifier: Apache-2.0
// Schemas of which a value is valid against one at most.
#pragma once

#include <cstdint>

#include "base/json/json_fwd.h"

namespace transom::constraint {

struct Comparing {
  const Json& root;    // where references lead
  int64_t& work;       // how much may still be looked at
  bool writes_others;  // properties that are not named and nothing is said of
};

// Whether nothing that the grammar writes for `written` is valid against `other`, as far as it can be seen: by types,
// constants, limits, lengths, patterns, items, and properties that are required or never written. The grammar writes
// less than a schema allows (no properties beside those that are named, unless `writes_others`), which counts here.
// `type`: of a schema that has none, or null.
bool excludes(const Json& written, const Json* type, const Json& other, const Comparing& comparing);

}  // namespace transom::constraint
