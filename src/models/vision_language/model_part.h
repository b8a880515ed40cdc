// SPDX-License-Identifier: Apache-2.0
// A model that is a part of another one and comes from a family of its own: a tower that sees, a decoder that writes.
#pragma once

#include <memory>
#include <string>

#include "models/family.h"

namespace transom {

// The configuration of a part, "vision_config" or "text_config", with its model_type: `type` where it states none.
Config part_config(const Config& config, const std::string& field, const std::string& type);

// The class for a pipeline's task of the family that the part's configuration names, as Transformers' AutoModel gives
// it. Its parameters are the whole's, whose pass computes it.
std::unique_ptr<Model> make_part(const Config& part, const std::string& task, const Scope& scope);

}  // namespace transom
