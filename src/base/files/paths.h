// SPDX-License-Identifier: Apache-2.0
// Questions about paths whose answers are never an exception of std::filesystem.
#pragma once

#include <filesystem>
#include <vector>

namespace transom {

// What a directory holds, by name; nothing where there is none, or it cannot be read. list_directory says why.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory);
// Whether both are there and are one file or directory, by whatever names.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);
// Errors: there is no working directory any more.
std::filesystem::path working_directory();
std::filesystem::path absolute_path(const std::filesystem::path& path);

}  // namespace transom
