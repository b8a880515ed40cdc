// SPDX-License-Identifier: Apache-2.0
// Directories, and questions about paths. What the system refuses is an Error that names the path and the reason, where
// std::filesystem would throw an exception of its own.
#pragma once

#include <filesystem>
#include <vector>

namespace transom {

namespace fs = std::filesystem;

// Whether there is something, a directory, or a regular file at this path. Errors: the path cannot be examined (a
// directory above it that may not be read).
bool path_exists(const fs::path& path);
bool directory_exists(const fs::path& path);
bool file_exists(const fs::path& path);

// Makes the directory and those above it; one that is there is left as it is.
void make_directories(const fs::path& path);
// Removes what is there, a directory with all that it holds. Nothing happens where nothing is.
void remove_tree(const fs::path& path);

// What a directory holds, by name.
std::vector<fs::path> list_directory(const fs::path& directory);
// The regular files below a directory, at any depth, by path.
std::vector<fs::path> list_files_below(const fs::path& directory);

}  // namespace transom
