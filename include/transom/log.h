// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace transom {

enum class LogLevel { kDebug, kInfo, kWarning };

// Receives the messages of the library and of its plugins: one line without its end, but for the graphs that
// TRANSOM_LOG=graphs prints. Called by any thread, one call at a time; it must not throw, and must not log itself.
using LogSink = std::function<void(LogLevel level, std::string_view text)>;

// Replaces the sink of the process. Without one, and after set_log_sink({}), messages are dropped: the library prints
// nothing itself. The program `transom` writes warnings and information to standard error. Safe from all threads; when
// it returns, the sink before is no longer called.
void set_log_sink(LogSink sink);

}  // namespace transom
