// SPDX-License-Identifier: Apache-2.0
#include "models/compression/gguf/gguf_pooling.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

// Both forms that sentence-transformers writes: "pooling_mode": "mean" or a list, and a flag for each mode.
std::vector<std::string> modes_of(const Json& config) {
  std::vector<std::string> modes;
  const auto given = config.find("pooling_mode");
  if (given != config.end() && given->is_string()) modes.push_back(given->get<std::string>());
  if (given != config.end() && given->is_array())
    for (const Json& mode : *given) modes.push_back(mode.is_string() ? mode.get<std::string>() : dump_json(mode));
  for (const auto& [key, value] : config.items())
    if (key.starts_with("pooling_mode_") && value == true) modes.push_back(key);
  return modes;
}

int64_t type_of(const fs::path& file) {
  const Json config = read_json(file);
  if (!config.is_object()) fail("{}: expected an object", file.string());
  const std::vector<std::string> modes = modes_of(config);
  if (modes.empty()) return 1;  // the default of sentence-transformers
  if (modes.size() > 1)
    fail(ErrorKind::kUnsupported, "{}: a GGUF file has one pooling, found {} ({})", file.string(), modes.size(),
         fmt::join(modes, ", "));
  const std::string& mode = modes[0];
  if (mode == "mean" || mode == "pooling_mode_mean_tokens") return 1;
  if (mode == "cls" || mode == "pooling_mode_cls_token") return 2;
  if (mode == "lasttoken" || mode == "pooling_mode_lasttoken") return 3;
  fail(ErrorKind::kUnsupported, "{}: a GGUF file has poolings mean, cls and lasttoken, found {}", file.string(),
       quoted(mode));
}

std::string text_of(const Json& module, const char* name) {
  const auto found = module.is_object() ? module.find(name) : module.end();
  return module.is_object() && found != module.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::optional<int64_t> gguf_pooling_type(const fs::path& directory) {
  const fs::path file = directory / "modules.json";
  if (!path_exists(file)) return std::nullopt;
  const Json modules = read_json(file);
  if (!modules.is_array()) fail("{}: expected a list of modules", file.string());
  int64_t type = 0;
  for (const Json& module : modules) {
    const std::string name = text_of(module, "type"), kind = name.substr(name.rfind('.') + 1);
    // llama.cpp's programs divide vectors by their lengths, and dropout belongs to training.
    if (kind == "Transformer" || kind == "Normalize" || kind == "Dropout") continue;
    if (kind != "Pooling")
      fail(ErrorKind::kUnsupported,
           "{}: a GGUF file has no place for the module {}, so that llama.cpp would give other vectors; write another "
           "format, or leave the module out of modules.json",
           file.string(), quoted(kind));
    const fs::path config = directory / text_of(module, "path") / "config.json";
    type = path_exists(config) ? type_of(config) : 1;
  }
  return type;
}

}  // namespace transom
