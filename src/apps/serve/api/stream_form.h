// SPDX-License-Identifier: Apache-2.0
// How streams come: as server-sent events, or, of Ollama's paths, as lines of JSON.
#pragma once

#include <string_view>

namespace transom::serve {

inline constexpr const char* kLinesOfJson = "application/x-ndjson";
// Whether streams of this path are lines, which have neither comments nor fields.
inline bool streams_lines(std::string_view path) { return path.starts_with("/api/"); }

}  // namespace transom::serve
