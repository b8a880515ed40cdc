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
  // The texts are what the model should write (Transformers' text_target): Marian cuts them by target.spm. For other
  // tokenizers this changes nothing.
  bool target = false;
  // Special tokens that stand in the texts are text, so that nobody writes them who is not to (Transformers'
  // split_special_tokens).
  bool split_special_tokens = false;
};

// The inputs of a chat template besides the messages. Lists and objects are JSON; empty: none.
struct ChatOptions {
  bool add_generation_prompt = false;   // ends with the beginning of an answer of the assistant
  bool continue_final_message = false;  // ends where the last message ends, so that the model continues it
  std::string chat_template;            // the name of one of the tokenizer's templates, or a template
  std::string tools;                    // an array of JSON schemas
  std::string documents;                // an array of objects with "title" and "text"
  std::string variables;                // an object: further variables of the template
  bool mark_generated = false;          // tells what the assistant writes, see ChatText::generated
};

// A conversation as text.
struct ChatText {
  std::string text;
  // With mark_generated: bytes begin..end of the text between the template's {% generation %} and {% endgeneration %},
  // in order. Empty where the template has no such marks.
  std::vector<std::pair<size_t, size_t>> generated;
};

// Overrides settings of a tokenizer's files, also in the copies that save_pretrained() writes.
struct TokenizerOptions {
  // Byte-level classes (RoBERTa, GPT-2 ...): whether a text, or each word of encode_words(), gets a space in front of
  // it.
  std::optional<bool> add_prefix_space;
  // Texts in small letters before anything else, unless the tokenizer makes them so already: sentence-transformers'
  // do_lower_case. Not in copies.
  bool do_lower_case = false;
};

// The tokens of one text or pair, all vectors of one length.
struct Encoding {
  std::vector<int64_t> ids, type_ids, attention_mask, special_tokens_mask;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // Unicode characters begin..end of the text that the token is from
  std::vector<std::string> tokens;
  std::vector<int64_t> word_ids;      // the number of the word in its text; -1: special token
  std::vector<int64_t> sequence_ids;  // 0 text, 1 pair; -1: special token
  std::vector<Encoding> overflowing;  // the rest after truncation, as further encodings of at most max_length tokens

  size_t size() const { return ids.size(); }
};

// A handle to an immutable tokenizer: cheap to copy, safe from all threads.
class Tokenizer {
 public:
  // A directory, or an id of the Hugging Face Hub. Reads its tokenizer.json, tokenizer_config.json,
  // special_tokens_map.json and chat templates; without the first vocab.txt (BERT, MPNet), vocab.json and merges.txt
  // (GPT-2, RoBERTa, CLIP ...) or a SentencePiece model (T5, LLaMA, ALBERT ...), as the class of tokenizer_config.json,
  // or else of config.json's model type, reads them. Marian's source.spm, target.spm and vocab.json, and Wav2Vec2's
  // vocab.json. As in transformers, do_lower_case, strip_accents and tokenize_chinese_chars of the configuration (or
  // the defaults of BERT's classes, if it names one) overrule the normaliser of tokenizer.json, and add_prefix_space
  // the byte-level pre-tokenizer. Errors name the file and the field.
  static Tokenizer from_pretrained(const std::string& directory, const TokenizerOptions& options = {});

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

  // A text that is split into words already, as with is_split_into_words: word_ids are the numbers of the words,
  // offsets count in each word.
  Encoding encode_words(std::span<const std::string> words, const EncodeOptions& options = {}) const;

  // Ids that the vocabulary lacks are skipped. `clean_up` removes the spaces before punctuation marks and English
  // contractions; without it the configuration's clean_up_tokenization_spaces decides.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = false,
                     std::optional<bool> clean_up = std::nullopt) const;

  // A conversation as text for the model, by the chat template of the checkpoint: `messages` is a JSON array
  // [{"role": "user", "content": "Hello"}, ...]. The text has its special tokens: encode it without adding any.
  // Errors of the template name its line.
  std::string apply_chat_template(std::string_view messages, const ChatOptions& options = {}) const;
  // The same, and which parts of it the assistant writes.
  ChatText render_chat(std::string_view messages, const ChatOptions& options) const;
  // The template that apply_chat_template() takes with these options, as it is written. Throws where there is none.
  const std::string& chat_template(const ChatOptions& options = {}) const;
  bool has_chat_template() const;

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
  // The ids that decode() leaves out with skip_special_tokens, ascending.
  std::vector<int64_t> all_special_ids() const;

  // Empty if the configuration has none, or has 1e30, which means none.
  std::optional<int64_t> model_max_length() const;
  const std::vector<std::string>& model_input_names() const;
  // Whether Transformers gives offsets for this tokenizer: not for those of its classes that are written in Python
  // (Marian, Wav2Vec2). Those of encode() are right all the same.
  bool has_offsets() const;
  Side padding_side() const;
  Side truncation_side() const;

  // Writes the files that the tokenizer was read from, unchanged, into `directory`, which is created if it is missing.
  // Files of other implementations (merges.txt, SentencePiece models) are among them.
  void save_pretrained(const std::string& directory) const;

  struct State;

 private:
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace transom
