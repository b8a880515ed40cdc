// SPDX-License-Identifier: Apache-2.0
// What turns texts and pictures into a family's inputs, where its files do not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/family/stated.h"

namespace transom {

// The longest text, in tokens, by the configuration.
struct PositionLimit {
  std::vector<std::string> fields;  // the first that is there counts; "text_config.x" is x of text_config
  bool behind_padding = false;      // positions begin behind pad_token_id
  // Positions that are turned, or counted from each other, have no last one: then the limit is what the family was
  // trained for, and longer texts are read as well.
  bool has_table = true;
  std::string table_flag = {};  // a flag of the configuration; without it there is no table
};

// Places of a text that pictures fill.
struct ImageTokens {
  std::string token;                   // what stands for a picture, where the processor's files do not say: "<image>"
  std::vector<std::string> id_fields;  // of its number in config.json; the first that is there counts
  int64_t id = 0;                      // where none is there
  // Transformers' class without "Processor", which says what a picture becomes in a text and how many places it has.
  std::string processor = "Llava";
};

struct FamilyProcessors {
  Stated<std::string> tokenizer;        // Transformers' class without "Tokenizer": "Bert"
  Stated<std::string> image_processor;  // Transformers' class without "ImageProcessor": "ViT"
  Stated<PositionLimit> positions;      // none: texts of any length
  Stated<bool> spaced_words;            // words that are given one by one get the space before them, as run_ner does
  Stated<bool> spans;                   // learns to fill gaps by writing what stood in them: it has no mask token
  std::optional<ImageTokens> image_tokens = {};  // of models that read pictures among their tokens
  int64_t text_length = 0;  // texts beside pictures are filled up to so many tokens; 0: to the longest of them
};

}  // namespace transom
