// SPDX-License-Identifier: Apache-2.0
// What a rule of a family's record makes of a parameter: the shape and the numbers of a tensor in GGUF.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "files/family/gguf.h"

namespace transom {

// `shape` of the parameter `name`, which begins the errors.
std::vector<int64_t> gguf_shape(const GgufName& rule, const std::string& name, std::vector<int64_t> shape,
                                const Json& config);
std::vector<float> gguf_numbers(const GgufName& rule, const std::string& name, std::vector<float> numbers,
                                const std::vector<int64_t>& shape, const Json& config);

}  // namespace transom
