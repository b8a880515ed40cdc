// SPDX-License-Identifier: Apache-2.0
#include "hub/adapters.h"

#include "base/error.h"
#include "io/config.h"
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
  const fs::path found = resolve_model(base);
  if (fs::exists(found / kAdapterConfig, none))
    fail("{}: base_model_name_or_path {} holds adapters itself; merge them first", config.where(), quoted(base));
  return found;
}

}  // namespace transom
