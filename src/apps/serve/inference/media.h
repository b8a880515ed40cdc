// SPDX-License-Identifier: Apache-2.0
// Pictures and sounds of requests: bytes in memory, from which pipelines read them as from a file.
#pragma once

#include <string>
#include <string_view>

#include "work/pipelines/task_record.h"

namespace transom::serve {

// The bytes as what a pipeline reads.
TaskInput media_input(const TaskRecord& task, std::string bytes);

// Standard base64, or a data: URL with it. Refuses all else by 400 with the name of the field, also http: URLs, which
// this server does not fetch.
std::string media_bytes(std::string_view text, const char* field);

}  // namespace transom::serve
