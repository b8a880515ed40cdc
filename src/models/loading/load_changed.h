// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/json/json_fwd.h"
#include "transom/model.h"

namespace transom {

// Model::from_pretrained with fields of a JSON object in the place of config.json's, as `changes` to a configuration
// before the model is made of it.
std::unique_ptr<Model> load_changed(const std::string& name_or_path, const Json& changes, const LoadOptions& options,
                                    LoadReport* report = nullptr);

}  // namespace transom
