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

}  // namespace transom::test
