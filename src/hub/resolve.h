// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "hub/settings.h"

namespace transom {

// What resolve_model and resolve_tokenizer do with an id, for given settings.
fs::path resolve_from_hub(const std::string& id, const HubSettings& settings, bool with_weights);

}  // namespace transom
