// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/module_list.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/json/json.h"
#include "models/sentences/module_file.h"

namespace transom {

namespace fs = std::filesystem;

std::vector<ModuleEntry> read_module_list(const fs::path& file) {
  const Json list = read_json(file);
  if (!list.is_array() || list.empty()) fail("{}: expected a list of modules", file.string());
  std::vector<ModuleEntry> entries;
  for (const Json& each : list) {
    ModuleFile module(each, file.string());
    const std::string type = module.text("type", ""), path = module.text("path", "");
    module.without_effect({"idx", "name", "kwargs"});  // the order of the list holds, as in sentence-transformers
    module.finish();
    if (!type.starts_with("sentence_transformers."))
      fail(ErrorKind::kUnsupported, "{}: {}: modules with code of their own are not supported", file.string(),
           quoted(type));
    const fs::path folder(path);
    if (folder.is_absolute() || std::find(folder.begin(), folder.end(), "..") != folder.end())
      fail("{}: the path {} leads out of the directory", file.string(), quoted(path));
    fs::path normal = folder.lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();  // "1_Pooling/"
    if (normal == ".") normal.clear();
    entries.push_back({type.substr(type.rfind('.') + 1), normal});
  }
  return entries;
}

bool names_module(const fs::path& directory, std::string_view kind) {
  const fs::path file = directory / "modules.json";
  if (!path_exists(file)) return false;
  const Json list = read_json(file);
  return list.is_array() && std::any_of(list.begin(), list.end(), [&](const Json& module) {
           const Json type = module.is_object() ? module.value("type", Json()) : Json();
           return type.is_string() && type.get_ref<const std::string&>().ends_with("." + std::string(kind));
         });
}

}  // namespace transom
