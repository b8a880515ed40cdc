// SPDX-License-Identifier: Apache-2.0
#include "files/hub/adapters.h"

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "transom/hub.h"

namespace transom {

fs::path base_of_adapters(const fs::path& directory) {
  std::error_code none;
  if (!fs::exists(directory / kAdapterConfig, none)) return directory;
  const Config config = Config::read(directory / kAdapterConfig);
  const std::string base = config.get_string("base_model_name_or_path", "");
  if (base.empty())
    fail("{}: expected base_model_name_or_path, the model that the adapters belong to, found none", config.where());
  if (fs::path(base).is_relative() && !fs::is_directory(base, none) && fs::is_directory(directory / base, none))
    return directory / base;
  const std::string revision = config.get_string("revision", "");  // of the base, as PEFT has it
  const fs::path found = resolve_model(base, revision.empty() ? HubOptions{} : HubOptions{.revision = revision});
  if (fs::exists(found / kAdapterConfig, none))
    fail("{}: base_model_name_or_path {} holds adapters itself; merge them first", config.where(), quoted(base));
  return found;
}

std::vector<std::string> classes_of_adapters(const fs::path& directory) {
  const fs::path file = directory / kAdapterClasses;
  std::vector<std::string> names;
  if (!file_exists(file)) return names;
  const Json json = read_json(file);
  require(json.is_array(), "{}: expected a list of names", file.string());
  for (const Json& name : json) {
    require(name.is_string(), "{}: expected a list of names, found {}", file.string(), quoted(name.dump()));
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::vector<std::string> known_classes(const fs::path& directory) {
  std::vector<std::string> names = classes_of_adapters(directory);
  if (!names.empty()) return names;
  for (const auto& [id, name] : Config::read(base_of_adapters(directory) / "config.json").get_map("id2label"))
    names.push_back(name);
  return names;
}

}  // namespace transom
