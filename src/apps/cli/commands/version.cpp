// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/commands/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files/paths.h"
#include "runtime/device/plugin.h"

namespace transom {

std::string version_text() {
  std::string text = "transom " TRANSOM_VERSION "\n";
  text += fmt::format("built by {} {} for {}\n", TRANSOM_COMPILER, __VERSION__, TRANSOM_PROCESSOR);
  text += "libraries: " TRANSOM_LIBRARIES "\n";
  std::vector<std::string> plugins;
  for (const std::filesystem::path& entry : entries_of(own_plugin_directory()))
    if (entry.extension() == ".so") plugins.push_back(entry.filename().string());
  text += fmt::format("plugins: {}\n", plugins.empty() ? "none" : fmt::format("{}", fmt::join(plugins, ", ")));
  return text;
}

}  // namespace transom
