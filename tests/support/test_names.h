// SPDX-License-Identifier: Apache-2.0
// Names of parameterised tests: words, which stay the same from build to build, where gtest would print bytes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace transom::test {

// "shared/llama-lm" becomes shared_llama_lm: gtest takes letters, digits and underscores.
inline std::string with_underscores(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

// "awq", 4, "bits" becomes awq_4_bits.
template <typename... Parts>
std::string words(const Parts&... parts) {
  std::string name;
  ((name += (name.empty() ? "" : "_") + fmt::format("{}", parts)), ...);
  return with_underscores(name);
}

// For parameters that are words or numbers themselves.
struct NameOfCase {
  template <typename Info>
  std::string operator()(const Info& info) const {
    return words(info.param);
  }
};

}  // namespace transom::test
