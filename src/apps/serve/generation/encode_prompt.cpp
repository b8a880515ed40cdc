// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/generation/encode_prompt.h"

#include <algorithm>

#include "apps/serve/api/api_error.h"

namespace transom::serve {

TokenIds encode_prompt(const std::string& text, const EncodeOptions& options, const Tokenizer& tokenizer, int64_t limit,
                       const std::string& field) {
  constexpr size_t kAtOnce = 64 * 1024;  // bytes
  // Where a text is cut its last token may be others than in the whole.
  constexpr int64_t kChanged = 64;
  EncodeOptions of_beginning = options;
  of_beginning.add_special_tokens = false;
  for (size_t size = kAtOnce; limit > 0 && size < text.size(); size *= 2) {
    size_t end = text.find_last_of(" \n\t", size);
    if (end == text.npos || end < size / 2) end = size;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    const size_t count = tokenizer.encode(text.substr(0, end), std::nullopt, of_beginning).size();
    if (static_cast<int64_t>(count) > limit + kChanged)
      throw ApiError(400,
                     fmt::format("this model's maximum context length is {} tokens; the first {} of {} bytes of the "
                                 "prompt have {}: shorten {}",
                                 limit, end, text.size(), count, field),
                     field, "context_length_exceeded");
  }
  return tokenizer.encode(text, std::nullopt, options).ids;
}

}  // namespace transom::serve
