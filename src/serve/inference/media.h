// SPDX-License-Identifier: Apache-2.0
// Pictures and sounds of requests. Pipelines read files; a request names none: its bytes become a file in memory that
// has no name in any directory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace transom::serve {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;  // while this lives, for this process

 private:
  int descriptor_;
};

// Standard base64, or a data: URL with it. Refuses all else by 400 with the name of the field, also http: URLs, which
// this server does not fetch.
std::string media_bytes(std::string_view text, const char* field);

}  // namespace transom::serve
