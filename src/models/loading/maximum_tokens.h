// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace transom {

class Config;

// The longest row of tokens that a model has positions for; empty where its configuration sets no limit.
std::optional<int64_t> maximum_tokens(const Config& config);

}  // namespace transom
