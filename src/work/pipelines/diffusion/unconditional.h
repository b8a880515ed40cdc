// SPDX-License-Identifier: Apache-2.0
// Pictures without a text: diffusion in pixels (Ho et al., 2020; Song et al., 2020), diffusers' DDPMPipeline and
// DDIMPipeline.
#pragma once

#include <memory>

#include "models/diffusion/pipeline_directory.h"
#include "work/pipelines/pipeline.h"

namespace transom {

bool is_unconditional(const PipelineDirectory& directory);
std::unique_ptr<Pipeline> load_unconditional(const PipelineDirectory& directory, const LoadOptions& options);

}  // namespace transom
