// SPDX-License-Identifier: Apache-2.0
// Nothing of a model's files is ignored: what is said of the keys of a JSON file that its reader does not ask for.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/json/json_fwd.h"
#include "transom/config.h"

namespace transom {

// Whether a value of this key was asked for, of this object or of a copy of it: who reads a configuration says so by
// reading.
bool was_read(const Config& config, const std::string& key);

struct KnownKey {
  std::string_view name;
  // Without: the key has no effect on what is computed here. With: JSON values with " or " between, at which it has
  // none; any other value is refused.
  std::string_view neutral = {};
  bool is_reported = false;  // any other value is reported as a key that is not known, and not refused
};

// Whether a value is one of those at which the key has no effect.
bool is_neutral(const KnownKey& key, const Json& value);

// Looks at each key of `object` that is not null and that `is_read` does not know. A key of `known` is passed over or
// refused, by name and value; one warning names those that are not in it. `where` is the file.
void check_known_keys(const Json& object, const std::string& where, std::span<const KnownKey> known,
                      const std::function<bool(const std::string& key)>& is_read);

}  // namespace transom
