// SPDX-License-Identifier: Apache-2.0
// Speech recognition by a model that writes what it hears.
#pragma once

#include <memory>
#include <string>

#include "work/pipelines/pipeline.h"

namespace transom {

TaskParameters whisper_recognition_parameters();
std::unique_ptr<Pipeline> make_whisper_recognition(const std::string& directory, const LoadOptions& options);

}  // namespace transom
