// SPDX-License-Identifier: Apache-2.0
// A run as a screen of text: how far it is, rates, memory, curves, the last messages.
#pragma once

#include <string>
#include <vector>

#include "apps/dashboard/monitor/run_monitor.h"

namespace transom::dashboard {

struct ScreenStyle {
  size_t width = 80, height = 24;  // in characters
  bool unicode = true, color = true;
};

// At most `height` lines of at most `width` characters (colours, which are escapes of ANSI, not counted).
std::vector<std::string> run_screen(const RunView& view, const ScreenStyle& style);

}  // namespace transom::dashboard
