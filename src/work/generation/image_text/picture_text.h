// SPDX-License-Identifier: Apache-2.0
// What a picture becomes in a text, by the processors that Transformers has.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "files/family/family.h"
#include "inputs/images/image_processor.h"
#include "transom/tokenizer.h"

namespace transom {

class PictureText {
 public:
  virtual ~PictureText() = default;
  // What stands in place of the token for a picture: `token` at each of its places, and what some write around it.
  virtual std::string text(const ImageProcessor::Pixels& pixels, const std::string& token) const;
  virtual int64_t places(const ImageProcessor::Pixels& pixels) const = 0;
  // What stands at a place, where `token` stands for a picture in texts that people write.
  virtual std::string at_a_place(const std::string& token) const { return token; }
  // The text as the processor goes on with it, for so many pictures.
  virtual std::string framed(const std::string& text, int64_t /*pictures*/, const std::string& /*token*/) const {
    return text;
  }
  // The text with all its pictures as the processor leaves it; `bytes` of it, in order, stay where they are.
  virtual std::string tidied(std::string text, std::span<size_t> /*bytes*/) const { return text; }
  // Whether the tokenizer may add its special tokens: else the text has all that there are.
  virtual bool takes_special_tokens() const { return true; }
  // Whether the model is told by types of tokens which of them are places of pictures (1) and which are not.
  virtual bool tells_places() const { return false; }
  // Whether the model reads the tokens beside the pictures with them, as an input of its own.
  virtual bool reads_all_at_once() const { return false; }
  // Whether a picture is no row among the tokens, and layers read those of a text by where they stand in it.
  virtual bool groups_pictures() const { return false; }
};

// What says how a processor writes.
struct PictureTextFiles {
  Config own, images;  // processor_config.json, and what is said of its pictures
  Config model;
  Tokenizer tokenizer;
};

// Of the record's processor.
std::shared_ptr<const PictureText> make_picture_text(const ImageTokens& tokens, const PictureTextFiles& files);

}  // namespace transom
