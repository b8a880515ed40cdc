// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/error.h"

namespace transom::test {

// The text of the Error that the body throws; empty if it throws none.
template <typename Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// The same without the folders of the file that it begins with.
template <typename Body>
std::string message_without_folders(Body&& body) {
  const std::string text = message_of(body);
  const size_t folder = text.rfind('/', text.find(": "));
  return folder == text.npos ? text : text.substr(folder + 1);
}

}  // namespace transom::test
