// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/text/pair_activation.h"

#include "base/json/json.h"
#include "models/sentences/module_file.h"

namespace transom {

std::string pair_activation_of(const std::filesystem::path& folder) {
  ModuleFile own(folder / "config_sentence_transformers.json"), model(folder / "config.json");
  std::string path = model.text("sbert_ce_default_activation_function", "");
  path = model.object("sentence_transformers").text("activation_fn", path);
  path = own.text("activation_fn", path);
  return path.substr(path.rfind('.') + 1);
}

}  // namespace transom
