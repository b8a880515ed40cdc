// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, as Hugging Face's tokenizers do it: tokenizer.json with tokenizer_config.json, or
// vocab.txt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transom {

enum class Truncation { kNone, kLongestFirst, kOnlyFirst, kOnlySecond };
enum class Padding { kNone, kLongest, kMaxLength };
enum class Side { kRight, kLeft };

struct EncodeOptions {
  bool add_special_tokens = true;
  Truncation truncation = Truncation::kNone;
  Padding padding = Padding::kNone;
  std::optional<int64_t> max_length;  // in tokens; without it the tokenizer's model_max_length
  int64_t stride = 0;                 // tokens that an overflowing part repeats from the one before
  bool return_overflowing_tokens = false;
  int64_t pad_to_multiple_of = 0;    // 0: no rounding
  std::optional<Side> padding_side;  // without them those of the configuration
  std::optional<Side> truncation_side;
};

// The tokens of one text or pair, all vectors of one length.
struct Encoding {
  std::vector<int64_t> ids, type_ids, attention_mask, special_tokens_mask;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // Unicode characters begin..end of the text that the token is from
  std::vector<std::string> tokens;
  std::vector<int64_t> word_ids;      // the number of the word in its text; -1: special token
  std::vector<int64_t> sequence_ids;  // 0 text, 1 pair; -1: special token
  std::vector<Encoding> overflowing;  // what truncation cut off, as further encodings of at most max_length tokens

  size_t size() const { return ids.size(); }
};

// A handle to an immutable tokenizer: cheap to copy, and safe to use from several threads.
class Tokenizer {
 public:
  // A directory, or an id of the Hugging Face Hub. Reads its tokenizer.json and tokenizer_config.json; without the
  // former vocab.txt, as a BERT tokenizer with the configuration's do_lower_case, strip_accents and
  // tokenize_chinese_chars. Errors name the file and the field.
  static Tokenizer from_pretrained(const std::string& directory);

  // From the text of a tokenizer.json, and of a tokenizer_config.json if there is one. `where` names it in errors.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json = {},
                             const std::string& where = "tokenizer.json");

  // Ill-formed UTF-8 counts as U+FFFD. An empty pair counts as none.
  Encoding encode(std::string_view text, std::optional<std::string_view> pair = std::nullopt,
                  const EncodeOptions& options = {}) const;
  // On all threads. Padding::kLongest pads to the longest of the batch, overflowing parts included. `pairs` is empty or
  // as long as `texts`; here an empty pair counts as one, as in transformers.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, std::span<const std::string> pairs = {},
                                     const EncodeOptions& options = {}) const;

  // Words that are cut already, as Transformers' is_split_into_words: word_ids are their numbers, offsets those in each
  // word.
  Encoding encode_words(std::span<const std::string> words, const EncodeOptions& options = {}) const;

  // Ids that the vocabulary lacks are passed over. `clean_up` removes the spaces before punctuation marks and English
  // contractions; without it the configuration's clean_up_tokenization_spaces decides.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = false,
                     std::optional<bool> clean_up = std::nullopt) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // One more than the largest id, added tokens included.
  int64_t vocab_size() const;

  // The special token of a role: "pad", "cls", "sep", "mask", "unk", "bos", "eos".
  std::optional<std::string> special_token(std::string_view role) const;
  std::optional<int64_t> special_token_id(std::string_view role) const;
  std::optional<int64_t> pad_token_id() const { return special_token_id("pad"); }
  std::optional<int64_t> cls_token_id() const { return special_token_id("cls"); }
  std::optional<int64_t> sep_token_id() const { return special_token_id("sep"); }
  std::optional<int64_t> mask_token_id() const { return special_token_id("mask"); }
  std::optional<int64_t> unk_token_id() const { return special_token_id("unk"); }
  std::optional<int64_t> bos_token_id() const { return special_token_id("bos"); }
  std::optional<int64_t> eos_token_id() const { return special_token_id("eos"); }
  // The ids that decode() passes over with skip_special_tokens, ascending.
  std::vector<int64_t> all_special_ids() const;

  // Empty where the configuration gives none, or the 1e30 that stands for none.
  std::optional<int64_t> model_max_length() const;
  const std::vector<std::string>& model_input_names() const;
  Side padding_side() const;
  Side truncation_side() const;

  // Copies the tokenizer's files into `directory`, which is made if it is missing.
  void save_pretrained(const std::string& directory) const;

  struct State;

 private:
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace transom
