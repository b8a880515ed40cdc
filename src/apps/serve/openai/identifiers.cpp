// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/openai/identifiers.h"

#include <random>

namespace transom::serve {

std::string random_text(std::string_view letters, size_t length) {
  static thread_local std::mt19937_64 generator{std::random_device{}()};
  std::uniform_int_distribution<size_t> any(0, letters.size() - 1);
  std::string text;
  for (size_t i = 0; i < length; ++i) text += letters[any(generator)];
  return text;
}

std::string new_identifier(const std::string& prefix, size_t length) {
  return prefix + random_text("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", length);
}

}  // namespace transom::serve
