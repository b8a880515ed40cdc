// SPDX-License-Identifier: Apache-2.0
// What the host offers: its log, and what it computes.
#pragma once

#include <string>

#include "transom/device_plugin.h"

namespace transom::hpu {

void set_host(const transom_host& host);
const transom_host& host();
void log(transom_log_level level, const std::string& text);

}  // namespace transom::hpu
