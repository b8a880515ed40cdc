// SPDX-License-Identifier: Apache-2.0
// What the library has to say besides errors. Nothing is printed: the program decides where it goes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace transom {

enum class LogLevel { kDebug, kInfo, kWarning };

using LogSink = std::function<void(LogLevel, std::string_view)>;
void set_log_sink(LogSink sink);  // an empty one drops everything, as it is at first
void log(LogLevel level, std::string_view text);

// Whether TRANSOM_LOG names this topic ("recompiles"), or "all".
bool log_topic(std::string_view topic);

}  // namespace transom
