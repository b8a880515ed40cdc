// SPDX-License-Identifier: Apache-2.0
// The options that the pre-tokenizer and the decoder Metaspace share (SentencePiece's mark ▁ for a space).
#pragma once

#include <string>

#include "inputs/text/components/fields.h"

namespace transom::text {

enum class PrependScheme { kNever, kFirst, kAlways };

struct Metaspace {
  std::string replacement = "▁";
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;

  Metaspace(const Json& json, const std::string& where) : split(bool_field(json, "split", where, true)) {
    if (!field(json, "replacement", where).is_null()) replacement = nonempty_field(json, "replacement", where);
    // Files from before prepend_scheme have add_prefix_space.
    const bool prefix = bool_field(json, "add_prefix_space", where, true);
    const std::string name = string_field(json, "prepend_scheme", where, prefix ? "always" : "never");
    if (name == "never") scheme = PrependScheme::kNever;
    else if (name == "first") scheme = PrependScheme::kFirst;
    else require(name == "always", "{}.prepend_scheme: expected always, first or never, found {}", where, quoted(name));
  }
};

}  // namespace transom::text
