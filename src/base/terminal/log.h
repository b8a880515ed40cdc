// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "transom/log.h"

namespace transom {

// Gives a message to the sink. Nothing is printed here: the user of the library decides where messages go.
void log(LogLevel level, std::string_view text);

// Whether TRANSOM_LOG names this topic ("recompiles"), or "all".
bool log_topic(std::string_view topic);

}  // namespace transom
