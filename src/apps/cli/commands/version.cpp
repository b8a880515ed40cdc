// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/commands/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "runtime/device/plugin.h"

namespace transom {

std::string version_text() {
  std::string text = "transom " TRANSOM_VERSION "\n";
  text += fmt::format("built by {} {} for {}\n", TRANSOM_COMPILER, __VERSION__, TRANSOM_PROCESSOR);
  text += "libraries: " TRANSOM_LIBRARIES "\n";
  std::vector<std::string> plugins;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(own_plugin_directory(), error))
    if (entry.path().extension() == ".so") plugins.push_back(entry.path().filename().string());
  std::sort(plugins.begin(), plugins.end());
  text += fmt::format("plugins: {}\n", plugins.empty() ? "none" : fmt::format("{}", fmt::join(plugins, ", ")));
  return text;
}

}  // namespace transom
