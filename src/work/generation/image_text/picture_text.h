// SPDX-License-Identifier: Apache-2.0
// What a picture becomes in a text, by the processors that Transformers has.
#pragma once

#include <memory>
#include <string>

#include "files/family/family.h"
#include "inputs/images/image_processor.h"

namespace transom {

class PictureText {
 public:
  virtual ~PictureText() = default;
  // What stands in place of the token for a picture, in which `token` is at each of its places.
  virtual std::string text(const ImageProcessor::Pixels& pixels, const std::string& token) const = 0;
  virtual int64_t places(const ImageProcessor::Pixels& pixels) const = 0;
};

// Of the record's processor; `own` is processor_config.json.
std::shared_ptr<const PictureText> make_picture_text(const ImageTokens& tokens, const Config& own, const Config& model);

}  // namespace transom
