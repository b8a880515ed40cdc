// SPDX-License-Identifier: Apache-2.0
// What turns texts and pictures into a family's inputs, where its files do not say.
#pragma once

#include <string>
#include <vector>

#include "family/stated.h"

namespace transom {

// The longest text, in tokens, by the configuration.
struct PositionLimit {
  std::vector<std::string> fields;  // the first that is there counts; "text_config.x" is x of text_config
  bool behind_padding = false;      // positions begin behind pad_token_id
};

struct FamilyProcessors {
  Stated<std::string> tokenizer;        // Transformers' class without "Tokenizer": "Bert"
  Stated<std::string> image_processor;  // Transformers' class without "ImageProcessor": "ViT"
  Stated<PositionLimit> positions;      // none: texts of any length
};

}  // namespace transom
