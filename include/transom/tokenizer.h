// SPDX-License-Identifier: Apache-2.0
// Tokenizers: text to ids and back, from the tokenizer.json of Hugging Face (or the vocab.txt of BERT alone).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom {

struct Encoding {
  std::vector<int64_t> ids, type_ids, attention_mask, special_tokens_mask;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // Unicode characters [begin, end) of the text or its pair
  std::vector<std::string> tokens;
  std::vector<int64_t> word_ids;      // which word of its text a token is part of; -1: none
  std::vector<int64_t> sequence_ids;  // 0 the text, 1 its pair, -1 special tokens and padding
  std::vector<Encoding> overflowing;  // what truncation cut off, in windows

  size_t size() const { return ids.size(); }
};

enum class Truncation { kNone, kLongestFirst, kOnlyFirst, kOnlySecond };
enum class Padding { kNone, kLongest, kMaxLength };

struct EncodeOptions {
  bool add_special_tokens = true;
  Truncation truncation = Truncation::kNone;
  Padding padding = Padding::kNone;
  int64_t max_length = 0;  // 0: the tokenizer's model_max_length
  int64_t stride = 0;      // tokens that windows share
  bool return_overflowing_tokens = false;
  int64_t pad_to_multiple_of = 0;
};

// A cheap handle; may be used from several threads.
class Tokenizer {
 public:
  // A directory with tokenizer.json, or vocab.txt, or the id of a model of the Hugging Face Hub (as resolve_tokenizer
  // of hub.h finds it). Unknown components are refused by name.
  static Tokenizer from_pretrained(const std::string& name_or_path);
  // From the text of tokenizer.json, and of tokenizer_config.json if there is one.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json = {},
                             const std::string& where = "tokenizer.json");

  Encoding encode(std::string_view text, std::optional<std::string_view> pair = std::nullopt,
                  const EncodeOptions& options = {}) const;
  // On all threads; padding to the longest is to that of the batch.
  std::vector<Encoding> encode_batch(const std::vector<std::pair<std::string, std::optional<std::string>>>& texts,
                                     const EncodeOptions& options = {}) const;
  // Words that are cut already (token classification): offsets are those of each word.
  Encoding encode_words(const std::vector<std::string>& words, const EncodeOptions& options = {}) const;

  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = false,
                     std::optional<bool> clean_up_tokenization_spaces = std::nullopt) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::string id_to_token(int64_t id) const;  // empty for ids that there are not
  int64_t vocab_size() const;

  // The token of a role: "pad", "cls", "sep", "mask", "unk", "bos", "eos"; nothing where the tokenizer has none.
  std::optional<std::string> special_token(std::string_view role) const;
  std::optional<int64_t> special_token_id(std::string_view role) const;
  int64_t pad_token_id() const { return special_token_id("pad").value_or(0); }
  std::optional<int64_t> model_max_length() const;
  const std::vector<std::string>& model_input_names() const;
  bool pads_left() const;

  // Copies the tokenizer's files into a directory.
  void save_pretrained(const std::string& directory) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace transom
