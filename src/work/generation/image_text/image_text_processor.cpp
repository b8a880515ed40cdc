// SPDX-License-Identifier: Apache-2.0
#include "work/generation/image_text/image_text_processor.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "models/records.h"
#include "models/vision_language/token_places.h"

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

// The arguments of a model for one picture.
NamedTensors tensors_of(const ImageProcessor::Pixels& image) {
  NamedTensors tensors{{"pixel_values", Tensor::from(image.values, image.shape())}};
  if (!image.mask.empty()) tensors.set(image.mask_name(), Tensor::from(image.mask, image.mask_shape()));
  for (const auto& [name, numbers] : image.beside)
    tensors.set(name, Tensor::from(numbers, image.shape_beside(numbers)));
  return tensors;
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
  const fs::path beside = directory / "preprocessor_config.json";
  const Config of_images = own.has("image_processor") ? own.get_object("image_processor")
                           : path_exists(beside)      ? Config::read(beside)
                                                      : Config::parse("{}", beside.string());
  image_token_ = own.get_string("image_token", tokens->token);
  image_token_id_ = id_in(model, *tokens);
  writes_ = make_picture_text(*tokens, {own, of_images, model, tokenizer});
  place_ = writes_->at_a_place(image_token_);
  if (image_token_.empty() || tokenizer.token_to_id(place_) != image_token_id_)
    fail("{}: the tokenizer has {} for pictures as token {}, config.json has {} for it", directory.string(),
         quoted(place_), tokenizer.token_to_id(place_) ? std::to_string(*tokenizer.token_to_id(place_)) : "none",
         image_token_id_);
  if (!writes_->takes_special_tokens()) bare_.emplace(tokenizer);
}

std::string ImageTextProcessor::expanded(const std::string& given, std::span<const ImageProcessor::Pixels> images,
                                         std::span<size_t> bytes) const {
  const auto pictures = static_cast<int64_t>(images.size());
  const std::string text = writes_->framed(given, pictures, image_token_);
  if (!bytes.empty() && text != given)
    fail(ErrorKind::kUnsupported, "the processor of this model puts a frame around texts: places in them are not told");
  if (const int64_t found = count_of(text, image_token_); found != pictures)
    fail("the text has {} {} for pictures, and {} {} given", found, image_token_, pictures,
         pictures == 1 ? "picture is" : "pictures are");
  std::string result;
  size_t end = 0, next = 0;  // of the text, of `bytes`
  for (const ImageProcessor::Pixels& image : images) {
    const size_t begin = text.find(image_token_, end);
    for (; next < bytes.size() && bytes[next] <= begin; ++next) bytes[next] = result.size() + bytes[next] - end;
    result += text.substr(end, begin - end);
    result += writes_->text(image, image_token_);
    end = begin + image_token_.size();
    for (; next < bytes.size() && bytes[next] < end; ++next) bytes[next] = result.size();  // within the token
  }
  for (; next < bytes.size(); ++next) bytes[next] = result.size() + bytes[next] - end;
  return writes_->tidied(result + text.substr(end), bytes);
}

std::vector<std::vector<FilledPlaces>> ImageTextProcessor::places(
    std::span<const int64_t> tokens, std::span<const ImageProcessor::Pixels> images) const {
  int64_t places = 0;
  for (const ImageProcessor::Pixels& image : images) places += writes_->places(image);
  TokenPlaces free(tokens, image_token_id_);
  if (free.left() != places)
    fail("the text's tokens have {} places for pictures, and the pictures fill {}", free.left(), places);
  std::vector<std::vector<FilledPlaces>> result;
  for (const ImageProcessor::Pixels& image : images) result.push_back(free.take(writes_->places(image)));
  return result;
}

std::vector<int64_t> ImageTextProcessor::token_types(std::span<const int64_t> tokens) const {
  std::vector<int64_t> types;
  if (writes_->tells_places())
    for (const int64_t token : tokens) types.push_back(token == image_token_id_ ? 1 : 0);
  return types;
}

ModelInputs ImageTextProcessor::operator()(const std::string& text, std::span<const ImageProcessor::Pixels> images,
                                           const Encode& encode) const {
  const std::string whole = expanded(text, images);
  ModelInputs inputs(bare_ ? bare_->encode(whole, std::nullopt, {.add_special_tokens = false}).ids : encode(whole));
  std::vector<std::vector<FilledPlaces>> filled = places(inputs.tokens, images);
  for (size_t i = 0; i < images.size(); ++i)
    inputs.attached.push_back({.tensors = tensors_of(images[i]), .places = std::move(filled[i])});
  if (!images.empty() && writes_->reads_all_at_once())
    if (auto others = tokens_beside(inputs.tokens, image_token_id_)) inputs.attached.push_back(std::move(*others));
  return inputs;
}

}  // namespace transom
