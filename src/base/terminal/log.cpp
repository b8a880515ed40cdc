// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/log.h"

#include <cstdlib>
#include <mutex>

namespace transom {
namespace {

std::mutex mutex;
LogSink current_sink;

}  // namespace

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(mutex);
  current_sink = std::move(sink);
}

void log(LogLevel level, std::string_view text) {
  const std::lock_guard lock(mutex);
  if (!current_sink) return;
  try {
    current_sink(level, text);
  } catch (...) {  // a message that cannot be shown is no failure of what it tells about
  }
}

bool log_topic(std::string_view topic) {
  const char* value = std::getenv("TRANSOM_LOG");
  std::string_view topics = value ? value : "";
  while (!topics.empty()) {
    const size_t end = std::min(topics.find(','), topics.size());
    if (topics.substr(0, end) == topic || topics.substr(0, end) == "all") return true;
    topics.remove_prefix(std::min(end + 1, topics.size()));
  }
  return false;
}

}  // namespace transom
