// SPDX-License-Identifier: Apache-2.0
// The library's data files: share/transom of the installation or of the build.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace transom {

// share/transom/`name` beside the library; none where it is not there.
std::optional<std::filesystem::path> shared_data(const std::filesystem::path& name);
// The parts of a list of folders, "/a:/b", as environment variables hold them.
std::vector<std::filesystem::path> folders_in(const std::string& list);

}  // namespace transom
