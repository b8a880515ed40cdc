// SPDX-License-Identifier: Apache-2.0
// Values of a family file's options for one configuration. An option is a constant; "$name", a value of the file or a
// field of the configuration ("$attn_config.clip_qkv": of a part of it); or an object of one operator,
// {"quotient": [1, "$logits_scaling"]}. docs/guide/a-family-as-data.md lists the operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "transom/config.h"

namespace transom {

// The place of an option in its file, for errors, and the layer whose value is asked for.
struct OptionPlace {
  std::string path;
  std::optional<int64_t> layer = {};
};

class OptionValues {
 public:
  // Both are referred to.
  OptionValues(const Json& file, const Config& config) : file_(file), config_(config) {}

  // null where a field is neither in the configuration nor among the defaults. Errors name the place.
  Json value(const Json& option, const OptionPlace& place) const;
  bool flag(const Json& option, const OptionPlace& place) const;  // null: false
  int64_t whole(const Json& option, const OptionPlace& place) const;
  double real(const Json& option, const OptionPlace& place) const;
  std::string text(const Json& option, const OptionPlace& place) const;  // null: empty

  // A field as the configuration has it, by its name or another one of the file's `aliases`; else its default. One of
  // the file's `layer_fields` may have another value for some layers, in the configuration's per_layer_config.
  Json field(const std::string& name, std::optional<int64_t> layer = {}) const;
  const Config& config() const { return config_; }

 private:
  struct Walk;
  const Json& file_;
  const Config& config_;
};

// What is wrong with an option whatever the configuration holds: an unknown name or operator, a number of arguments.
// `by_layer`: whether "$layer" has a value there.
void check_option(const Json& file, const Json& option, const std::string& path, bool by_layer,
                  std::vector<std::string>& findings);

// "a.b" within an object; null pointer: it is not there.
const Json* json_at(const Json& object, std::string_view path);

}  // namespace transom
