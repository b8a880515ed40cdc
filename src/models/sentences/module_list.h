// SPDX-License-Identifier: Apache-2.0
// modules.json: what a model of sentence-transformers is made of, in order.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

struct ModuleEntry {
  std::string kind;              // the last part of its class: "Pooling"
  std::filesystem::path folder;  // within the directory; empty: the directory itself
};

// Refuses modules with code of their own, and folders that lead out of the directory.
std::vector<ModuleEntry> read_module_list(const std::filesystem::path& file);
// Whether modules.json of the directory names a module of the kind. A file that is none is refused by who reads it.
bool names_module(const std::filesystem::path& directory, std::string_view kind);

}  // namespace transom
