// SPDX-License-Identifier: Apache-2.0
// Tokenizers from the files that their classes had before tokenizer.json: vocab.json with merges.txt, or a
// SentencePiece model. They become what Transformers makes of them: the same components, as a tokenizer.json would name
// them.
#pragma once

#include <string>
#include <string_view>

#include "base/json/json_fwd.h"
#include "inputs/text/sentencepiece/sentencepiece_model.h"
#include "inputs/text/tokenizer_file.h"

namespace transom::text {

// `family` is the class without "Tokenizer" (GPT2, Roberta, CLIP, Qwen2, GPTNeoX, Whisper; others are taken for GPT2),
// `config` its configuration with all special tokens named. `where` names vocab.json in errors.
TokenizerFile read_byte_pair_files(const std::string& family, std::string_view vocabulary, std::string_view merges,
                                   const Json& config, const std::string& where);

// Of T5, ALBERT, CamemBERT, XLM-RoBERTa, mBART, DeBERTa-v2, LLaMA, Gemma; others are read as the file alone says.
TokenizerFile read_sentencepiece_file(const std::string& family, const SentencePieceModel& model, const Json& config,
                                      const std::string& where);

}  // namespace transom::text
