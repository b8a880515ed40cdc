// SPDX-License-Identifier: Apache-2.0
// Small files for tests, in a folder that goes away.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "transom/error.h"

namespace transom {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "transom-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `body` throws, from the file's name on.
template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    const size_t folder = text.rfind('/', text.find(": "));
    return folder == text.npos ? text : text.substr(folder + 1);
  }
  return "no error";
}

}  // namespace transom
