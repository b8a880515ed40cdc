// SPDX-License-Identifier: Apache-2.0
// Which messages of the library the program says, by Transformers' levels: from "warning" on, notes are not said; from
// "error" on, warnings neither.
#pragma once

#include <string>

#include "transom/log.h"

namespace transom {

bool is_said(LogLevel level, const std::string& log_level);
// Says them on standard error from now on.
void print_log_messages(const std::string& log_level = "passive");

}  // namespace transom
