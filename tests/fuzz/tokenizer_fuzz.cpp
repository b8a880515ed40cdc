// SPDX-License-Identifier: Apache-2.0
// Any bytes as tokenizer.json; behind a NUL byte stands a text that what was accepted must encode and decode.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transom/error.h"
#include "transom/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), all.size());
  const std::string_view text = end < all.size() ? all.substr(end + 1) : "Hello, wörld! 1 2";
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(all.substr(0, end));
    const Encoding encoding = tokenizer.encode(text, "a pair");
    tokenizer.decode(encoding.ids, true);
  } catch (const Error&) {
  }
  return 0;
}
