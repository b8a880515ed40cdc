// SPDX-License-Identifier: Apache-2.0
// Files that hold what others keep in a directory: "model.gguf/config.json" names a part of model.gguf. read_file,
// path_exists and file_exists (files.h, directories.h) know such parts, so that readers of a directory read them too.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace transom {

// The parts of a container by name. Called each time one is asked for; any thread may call it.
using ContainerParts = std::map<std::string, std::string, std::less<>>;
using ReadContainer = ContainerParts (*)(const std::filesystem::path& container);

// At start-up, by who knows the format: `extension` as ".gguf", and `magic`, the bytes (16 at most) that such files
// begin with.
struct RegisterContainer {
  RegisterContainer(const char* extension, std::string_view magic, ReadContainer read);
};

// Whether the path is that of a file whose parts can be read as those of a directory: one of the extension, or one that
// begins so under any name (Ollama's blobs have none).
bool is_container(const std::filesystem::path& path);
// The part that the path names; nothing where its parent is no container or holds no such part.
std::optional<std::string> container_part(const std::filesystem::path& path);

}  // namespace transom
