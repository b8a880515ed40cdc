// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "transom/pipeline.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// The task of pipeline() and of a TaskPipeline, on the device and in the precision of the options.
std::shared_ptr<const Pipeline> load_pipeline(const std::string& task, const std::string& model,
                                              const PipelineOptions& options);

}  // namespace transom
