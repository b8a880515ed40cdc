// SPDX-License-Identifier: Apache-2.0
// Pictures among the parts of a chat's messages, in the forms of OpenAI, Anthropic and Hugging Face.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/api/options.h"
#include "apps/serve/api/request_json.h"
#include "apps/serve/models/served_model.h"
#include "inputs/images/image_processor.h"

namespace transom::serve {

// Whether a part of this type is a picture.
bool is_image_part(std::string_view type);
// How many parts of messages are pictures, of which nothing is checked yet.
int64_t count_image_parts(const Json& messages);

// Takes pictures out of parts, within the server's limits, and prepares each as it comes, so that no two lie decoded in
// memory. Throws 400, naming the place.
class ChatImages {
 public:
  // `together`: how many pictures the chat has.
  ChatImages(const ServedModel& model, const ServeOptions& options, int64_t together)
      : model_(model), options_(options), together_(together) {}
  // What stands in the place of a part that is a picture: {"type": "image"}.
  Json take(const Json& part, const std::string& where);
  const std::vector<ImageProcessor::Pixels>& taken() const { return taken_; }

 private:
  const ServedModel& model_;
  const ServeOptions& options_;
  int64_t together_;
  std::vector<ImageProcessor::Pixels> taken_;
};

}  // namespace transom::serve
