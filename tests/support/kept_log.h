// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/log.h"

namespace transom::test {

// Keeps what the library says while it lives, a line a message.
class KeptLog {
 public:
  KeptLog() {
    set_log_sink([this](LogLevel, std::string_view text) { text_ += std::string(text) + "\n"; });
  }
  ~KeptLog() { set_log_sink({}); }
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;
  bool has(std::string_view text) const { return text_.find(text) != std::string::npos; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace transom::test
