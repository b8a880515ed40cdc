// SPDX-License-Identifier: Apache-2.0
// Executables that were compiled before, each a file of a folder: `executable_cache_dir` of an IPUConfig, or the folder
// that POPTORCH_CACHE_DIR names. Any file may be deleted at any time. Files are written beside their place and renamed,
// so that several processes may use one folder: a reader sees a whole file or none.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <poplar/Executable.hpp>
#include <poplar/Target.hpp>
#include <string>

#include "ipu/device/ipu_config.h"
#include "transom/device_plugin.hpp"

namespace transom::ipu {

// A graph's values, nodes and attributes; texts of unlike graphs are unlike. The scopes of nodes say where they come
// from.
std::string graph_text(const transom_graph& graph, bool with_scopes);

// All that a program depends on: its graph, the machine, the configuration, this plugin's own code and the libraries'.
// Empty where that code cannot be read: such programs are not kept.
std::string program_key(const transom_graph& graph, const poplar::Target& target, const IpuConfig& config);

class ExecutableCache {
 public:
  using Warn = std::function<void(const std::string&)>;

  // An empty folder keeps nothing. What goes wrong with files is told to `warn`, and hinders nobody.
  ExecutableCache(std::filesystem::path folder, Warn warn) : folder_(std::move(folder)), warn_(std::move(warn)) {}
  // Where the configuration, else the environment, says.
  static std::filesystem::path folder_of(const IpuConfig& config);

  // None where there is no file, or one that is cut off, damaged, or another program's: the caller compiles, and `keep`
  // replaces the file.
  std::optional<poplar::Executable> find(const std::string& key) const;
  void keep(const std::string& key, const poplar::Executable& executable) const;
  std::filesystem::path path_of(const std::string& key) const;

 private:
  std::filesystem::path folder_;
  Warn warn_;
};

}  // namespace transom::ipu
