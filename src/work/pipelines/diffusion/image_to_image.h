// SPDX-License-Identifier: Apache-2.0
// A picture that becomes what a text says: the whole of it, or what a mask leaves open (inpainting).
#pragma once

#include <memory>
#include <string>

#include "work/pipelines/pipeline.h"

namespace transom {

// Of a directory with model_index.json.
std::unique_ptr<Pipeline> load_picture_change(const std::string& directory, const LoadOptions& options);
// By the networks of a pipeline that draws by a text, whose weights both share; null where those begin with no picture.
// One of the two runs at a time.
std::unique_ptr<Pipeline> picture_change_beside(const Pipeline& drawing);

class PictureModel;
// The networks behind text-to-image; null where it is no pipeline of diffusers that reads a text.
std::shared_ptr<const PictureModel> picture_model_of(const Pipeline& drawing);

}  // namespace transom
