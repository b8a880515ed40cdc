// SPDX-License-Identifier: Apache-2.0
// What Donut writes of a document, as fields: <s_menu><s_name>Tea</s_name><sep/><s_name>Milk</s_name></s_menu> is
// {"menu": [{"name": "Tea"}, {"name": "Milk"}]}.
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "transom/tokenizer.h"

namespace transom {

// As DonutProcessor.token2json(): a text without fields is {"text_sequence": text}. Values that are one token of the
// tokenizer's lose its brackets ("<yes/>" is "yes"). Refuses fields that lie more than 64 deep.
Json fields_of_tags(const std::string& text, const Tokenizer& tokenizer);

// What such a model wrote, with its tags, without the token of its task, which comes first, and those that end and fill
// texts.
std::string tagged_text(const std::vector<int64_t>& ids, const Tokenizer& tokenizer);

}  // namespace transom
