// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/image_text/image_text_processor.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/records.h"
#include "models/vision_language/token_places.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

const ImageTokens* image_tokens_of(const Config& model) {
  const Family* family = find_family(model);
  return family && family->processors.image_tokens ? &*family->processors.image_tokens : nullptr;
}

int64_t id_in(const Config& model, const ImageTokens& tokens) {
  for (const std::string& field : tokens.id_fields)
    if (model.has(field)) return model.get_int(field);
  return tokens.id;
}

// How many times the text holds the token.
int64_t count_of(const std::string& text, const std::string& token) {
  int64_t count = 0;
  for (size_t at = text.find(token); at != text.npos; at = text.find(token, at + token.size())) ++count;
  return count;
}

}  // namespace

bool ImageTextProcessor::is_for(const Config& model) { return image_tokens_of(model) != nullptr; }

bool ImageTextProcessor::has_places(const std::string& text) {
  return std::any_of(families().begin(), families().end(), [&](const Family& family) {
    const std::optional<ImageTokens>& tokens = family.processors.image_tokens;
    return tokens && text.find(tokens->token) != text.npos;
  });
}

ImageTextProcessor::ImageTextProcessor(const std::filesystem::path& directory, const Config& model,
                                       const Tokenizer& tokenizer)
    : images_(ImageProcessor::from_pretrained(directory)) {
  const ImageTokens* tokens = image_tokens_of(model);
  if (!tokens)
    fail(ErrorKind::kUnsupported, "{}: models of this type read no pictures among their tokens", model.where());
  const fs::path file = directory / "processor_config.json";
  const Config own = path_exists(file) ? Config::read(file) : Config::parse("{}", file.string());
  image_token_ = own.get_string("image_token", tokens->token);
  image_token_id_ = id_in(model, *tokens);
  if (image_token_.empty() || tokenizer.token_to_id(image_token_) != image_token_id_)
    fail("{}: the tokenizer has {} for pictures as token {}, config.json has {} for it", directory.string(),
         quoted(image_token_),
         tokenizer.token_to_id(image_token_) ? std::to_string(*tokenizer.token_to_id(image_token_)) : "none",
         image_token_id_);
  // Processors that Transformers wrote before 4.46 say nothing of it: the model does.
  const bool says = own.has("patch_size");
  patch_size_ = says ? own.get_int("patch_size") : model.get_object("vision_config").get_int("patch_size", 14);
  if (patch_size_ < 1) fail("{}: patch_size: expected a number above 0, found {}", file.string(), patch_size_);
  const std::string strategy = says ? own.get_string("vision_feature_select_strategy", "")
                                    : model.get_string("vision_feature_select_strategy", "default");
  more_places_ = (says ? own.get_int("num_additional_image_tokens", 0) : 1) - (strategy == "default" ? 1 : 0);
}

int64_t ImageTextProcessor::places_of(const ImageProcessor::Pixels& pixels) const {
  const int64_t places = (pixels.height / patch_size_) * (pixels.width / patch_size_) + more_places_;
  if (places < 1)
    fail("a picture of {}x{} pixels has no patches of {}: it makes no tokens", pixels.height, pixels.width,
         patch_size_);
  return places;
}

ModelInputs ImageTextProcessor::operator()(const std::string& text, std::span<const ImageProcessor::Pixels> images,
                                           const Encode& encode) const {
  const auto pictures = static_cast<int64_t>(images.size());
  if (const int64_t found = count_of(text, image_token_); found != pictures)
    fail("the text has {} {} for pictures, and {} {} given", found, image_token_, pictures,
         pictures == 1 ? "picture is" : "pictures are");
  std::string expanded;
  size_t end = 0;
  int64_t places = 0;
  for (const ImageProcessor::Pixels& image : images) {
    const size_t begin = text.find(image_token_, end);
    expanded += text.substr(end, begin - end);
    for (int64_t i = places_of(image); i > 0; --i) expanded += image_token_;
    places += places_of(image);
    end = begin + image_token_.size();
  }
  ModelInputs inputs(encode(expanded + text.substr(end)));
  TokenPlaces free(inputs.tokens, image_token_id_);
  if (free.left() != places)
    fail("the text's tokens have {} places for pictures, and the pictures fill {}", free.left(), places);
  for (const ImageProcessor::Pixels& image : images)
    inputs.attached.push_back(
        {.tensors = {{"pixel_values", pixel_values({&image, 1})}}, .places = free.take(places_of(image))});
  return inputs;
}

}  // namespace transom
