// SPDX-License-Identifier: Apache-2.0
// Vectors as files that NumPy and safetensors read.
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

// Refuses a name that ends in neither .npy nor .safetensors.
void expect_vector_file(const std::string& path);
// The results of feature extraction, which have one shape, as f32 [N, ...] in the order of the inputs; in safetensors
// under the name `embeddings`.
void write_vectors(const std::string& path, const std::vector<Json>& results);

}  // namespace transom
