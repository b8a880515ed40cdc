// SPDX-License-Identifier: Apache-2.0
// Where the planner's data files are: share/transom of the installation or of the build, devices first in the folders
// of TRANSOM_DEVICE_MODELS (separated by colons).
#pragma once

#include <filesystem>
#include <vector>

namespace transom {

// share/transom/`name`, a file or a folder. Errors name the places that were looked at.
std::filesystem::path plan_data(const std::filesystem::path& name);
// The folders that hold device files; those of the environment before our own.
std::vector<std::filesystem::path> device_model_directories();

}  // namespace transom
