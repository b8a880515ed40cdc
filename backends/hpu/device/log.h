// SPDX-License-Identifier: Apache-2.0
// What the host offers: its log and its pool of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "transom/device_plugin.h"

namespace transom::hpu {

void set_host(const transom_host& host);
void log(transom_log_level level, const std::string& text);

// Does body(begin, end) over [0, count) in pieces of at least `grain`, on several threads.
void parallel_ranges(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace transom::hpu
