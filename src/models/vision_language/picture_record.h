// SPDX-License-Identifier: Apache-2.0
// What the records of families share that read pictures among their tokens and write.
#pragma once

#include <string>
#include <vector>

#include "models/shared/decoder.h"
#include "models/shared/record_parts.h"

namespace transom {

struct PictureRecord {
  std::string type;          // model_type
  std::string writer, bare;  // classes: with the layer over the vocabulary, and without
  MakeDecoder make;          // makes the body of both
  std::string prefix = "";   // the body's name inside the first; empty: its parts stand beside the head
  // The layer over the vocabulary, by its names in checkpoints of Transformers 4 and 5.
  std::vector<std::string> head = {"lm_head"};
  std::string tokenizer = "Llama", image_processor;  // Transformers' classes, as FamilyProcessors has them
  ImageTokens image_tokens;
  std::vector<RenamedPart> renamed_parts = {};
  FamilyInputs pixels = {};  // inputs beside the text, where their form is known
};

Family picture_text_family(const PictureRecord& record);

}  // namespace transom
