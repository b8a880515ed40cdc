// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/output/log_messages.h"

#include <cstdio>

namespace transom {

bool is_said(LogLevel level, const std::string& log_level) {
  const bool errors_only = log_level == "error" || log_level == "critical";
  if (level == LogLevel::kWarning) return !errors_only;
  return level == LogLevel::kInfo && !errors_only && log_level != "warning";
}

void print_log_messages(const std::string& log_level) {
  set_log_sink([log_level](LogLevel level, std::string_view text) {
    if (is_said(level, log_level)) std::fprintf(stderr, "transom: %.*s\n", static_cast<int>(text.size()), text.data());
  });
}

}  // namespace transom
