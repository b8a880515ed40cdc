// SPDX-License-Identifier: Apache-2.0
// A picture that becomes what a text says: the whole of it, or what a mask leaves open (inpainting).
#pragma once

#include <memory>
#include <string>

#include "work/pipelines/pipeline.h"

namespace transom {

// Of a directory with model_index.json.
std::unique_ptr<Pipeline> load_picture_change(const std::string& directory, const LoadOptions& options);

}  // namespace transom
