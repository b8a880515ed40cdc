// SPDX-License-Identifier: Apache-2.0
// From a text with pictures to what a vision-language model reads, as Transformers' processors do it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "inputs/images/image_processor.h"
#include "transom/config.h"
#include "transom/model_inputs.h"
#include "transom/tokenizer.h"
#include "work/generation/image_text/picture_text.h"

namespace transom {

class ImageTextProcessor {
 public:
  // Whether the family of a configuration reads pictures among its tokens.
  static bool is_for(const Config& model);
  // Whether a text says itself where its pictures stand, in a way that one of the families knows.
  static bool has_places(const std::string& text);
  // Null where the family of the model reads none, or nothing beside it says how pictures are prepared.
  static std::optional<ImageTextProcessor> of(const std::filesystem::path& directory, const Config& model,
                                              const Tokenizer& tokenizer) {
    return is_for(model) && ImageProcessor::is_in(directory)
               ? std::optional<ImageTextProcessor>(std::in_place, directory, model, tokenizer)
               : std::nullopt;
  }
  // Reads processor_config.json, and how pictures are prepared. Refuses a tokenizer that knows the token for pictures
  // by another number than the model.
  ImageTextProcessor(const std::filesystem::path& directory, const Config& model, const Tokenizer& tokenizer);

  // What stands for a picture in a text: "<image>".
  const std::string& image_token() const { return image_token_; }
  int64_t image_token_id() const { return image_token_id_; }

  // `together`: how many pictures the chat has, or 1 for those of a text by itself.
  ImageProcessor::Pixels prepared(const Image& image, int64_t together = 1) const { return images_(image, together); }

  // The text has the token once for each picture, else it is refused, with both numbers. It becomes what the model
  // reads, in which the token is at each of a picture's places. `bytes`, in order, are those of the text that are to be
  // found again: they become those of the result.
  std::string expanded(const std::string& text, std::span<const ImageProcessor::Pixels> images,
                       std::span<size_t> bytes = {}) const;
  // Which places of the expanded text's tokens each picture fills.
  std::vector<std::vector<FilledPlaces>> places(std::span<const int64_t> tokens,
                                                std::span<const ImageProcessor::Pixels> images) const;

  // token_type_ids of these tokens where the model learns with them; empty: it has none.
  std::vector<int64_t> token_types(std::span<const int64_t> tokens) const;

  // Whether a picture is no row among the tokens, and the model is told by a mask which tokens see which pictures of
  // their text.
  bool groups_pictures() const { return writes_->groups_pictures(); }

  using Encode = std::function<TokenIds(const std::string&)>;
  // The expanded text encoded, by `encode` unless the processor lets no tokenizer add tokens of its own, with the
  // pictures in their places.
  ModelInputs operator()(const std::string& text, std::span<const ImageProcessor::Pixels> images,
                         const Encode& encode) const;

 private:
  ImageProcessor images_;
  std::string image_token_, place_;  // in a text, and at each place of its picture
  std::optional<Tokenizer> bare_;    // of processors that let no tokenizer add special tokens
  int64_t image_token_id_ = 0;
  std::shared_ptr<const PictureText> writes_;
};

}  // namespace transom
