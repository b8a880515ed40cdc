// SPDX-License-Identifier: Apache-2.0
// How streams come, by the interface: as server-sent events, with names or without, or as lines of JSON.
#pragma once

#include <string>

#include "apps/serve/api/api_error.h"

namespace transom::serve {

inline constexpr const char* kLinesOfJson = "application/x-ndjson";

// An event with its name.
inline std::string named_event(const std::string& name, const std::string& data) {
  return "event: " + name + "\ndata: " + data + "\n\n";
}

// What a stream says that has begun and fails.
inline std::string stream_failure(const ApiError& error, ErrorForm form) {
  const std::string body = error_body(error, form);
  if (form == ErrorForm::kOllama) return body + "\n";
  return form == ErrorForm::kAnthropic ? named_event("error", body) : "data: " + body + "\n\n";
}

// What a stream says that has nothing to say; empty: the form has no place for it.
inline std::string stream_ping(ErrorForm form) {
  if (form == ErrorForm::kOllama) return "";
  return form == ErrorForm::kAnthropic ? named_event("ping", R"({"type": "ping"})") : ": ping\n\n";
}

}  // namespace transom::serve
