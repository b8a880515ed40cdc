// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/identifiers.h"

#include <random>

namespace transom::serve {

std::string new_identifier(const std::string& prefix, size_t length) {
  static thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr char kLetters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::uniform_int_distribution<size_t> any(0, sizeof kLetters - 2);
  std::string text = prefix;
  for (size_t i = 0; i < length; ++i) text += kLetters[any(generator)];
  return text;
}

}  // namespace transom::serve
