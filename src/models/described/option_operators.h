// SPDX-License-Identifier: Apache-2.0
// The operators of options, but for "if", "first", "all" and "any", which look at some of their arguments only.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json/json_fwd.h"

namespace transom {

struct OptionOperator {
  std::string_view name;
  size_t least, most;  // arguments
  Json (*apply)(std::span<const Json> arguments, const std::string& where);
};

std::span<const OptionOperator> option_operators();
const OptionOperator* find_option_operator(std::string_view name);

}  // namespace transom
