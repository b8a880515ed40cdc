// SPDX-License-Identifier: Apache-2.0
// What Donut writes of a document, as fields: <s_menu><s_name>Tea</s_name><sep/><s_name>Milk</s_name></s_menu> is
// {"menu": [{"name": "Tea"}, {"name": "Milk"}]}.
#pragma once

#include <set>
#include <string>

#include "base/json/json_fwd.h"

namespace transom {

// As DonutProcessor.token2json(): a text without fields is {"text_sequence": text}. `added`: tokens that were added to
// the vocabulary, of which those that are one whole value ("<yes/>") lose their brackets. Refuses fields that lie more
// than 64 deep.
Json fields_of_tags(const std::string& text, const std::set<std::string>& added);

}  // namespace transom
