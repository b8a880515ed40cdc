// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/components/components.h"
#include "inputs/text/components/fields.h"
#include "inputs/text/token_models/byte_pairs.h"
#include "inputs/text/token_models/unigram.h"
#include "inputs/text/token_models/word_piece.h"
#include "inputs/text/tokenizer_file.h"

namespace transom::text {

std::unique_ptr<TokenModel> make_token_model(const TokenizerFile& file, const std::string& where) {
  const Json& json = field(*file.rest, "model", where);
  require(json.is_object(), "{}: expected an object, found {}", where, json.type_name());
  const Vocabulary& vocabulary = *file.vocabulary;
  // Files from before the types were written are told apart by their fields.
  const std::string type = string_field(json, "type", where,
                                        !file.merges.empty()                        ? "BPE"
                                        : !file.scores.empty()                      ? "Unigram"
                                        : json.contains("max_input_chars_per_word") ? "WordPiece"
                                                                                    : "");
  if (type == "WordPiece") return std::make_unique<WordPiece>(json, vocabulary, where);
  if (type == "WordLevel") return std::make_unique<WordLevel>(json, vocabulary, where);
  if (type == "BPE") return std::make_unique<BytePairs>(json, vocabulary, file.merges, where);
  if (type == "Unigram") return std::make_unique<Unigram>(json, vocabulary, file.scores, where);
  fail("{}: the model {} is not known; known are WordPiece, WordLevel, BPE and Unigram", where, quoted(type));
}

}  // namespace transom::text
