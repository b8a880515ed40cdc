// SPDX-License-Identifier: Apache-2.0
#include "transom/tokenizer.h"

#include <algorithm>

#include "base/files.h"
#include "base/threads.h"
#include "text/added_tokens.h"
#include "text/clean_up.h"
#include "text/components.h"
#include "text/encoding.h"
#include "text/fields.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"
#include "transom/hub.h"

namespace transom {

using namespace text;

struct Tokenizer::State {
  std::vector<std::pair<std::string, std::string>> files;  // name and content, for save_pretrained
  TokenizerFile file;
  TokenizerConfig config;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<AddedTokens> added_tokens;
  bool byte_pairs = false;         // cleaning up would spoil their text
  std::string end_of_word_suffix;  // decoded as a space; empty: none

  const std::string* find_file(std::string_view name) const {
    for (const auto& [known, content] : files)
      if (known == name) return &content;
    return nullptr;
  }
  void build(const Json& fields, const std::string& where, const std::string& config_where);
  Encoding encode_one(std::string_view text, int64_t sequence) const;
  void name_tokens(Encoding& encoding) const;
  // A pair may be empty here.
  Encoding encode(std::string_view text, std::optional<std::string_view> pair, const EncodeOptions& options) const;
  Encoding finish(std::vector<Encoding> parts, const EncodeOptions& options) const;
  void pad(std::span<Encoding> batch, const EncodeOptions& options) const;
  std::optional<int64_t> maximum_length(const EncodeOptions& options) const {
    return options.max_length ? options.max_length : config.model_max_length;
  }
};

namespace {

// The configuration of a BERT tokenizer without tokenizer.json: its special tokens have BERT's names unless it says
// otherwise.
void name_bert_tokens(Json& config) {
  for (const auto& [role, name] : {std::pair{"pad", "[PAD]"}, std::pair{"unk", "[UNK]"}, std::pair{"cls", "[CLS]"},
                                   std::pair{"sep", "[SEP]"}, std::pair{"mask", "[MASK]"}}) {
    const std::string key = std::string(role) + "_token";
    if (config.contains(key) && config[key].is_object()) config[key] = string_field(config[key], "content", key);
    if (!config.contains(key)) config[key] = name;
  }
}

// Adds the fields of a file's text to the configuration.
void update(Json& config, std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  require(json.is_object(), "{}: expected an object, found {}", where, json.type_name());
  config.update(json);
}

}  // namespace

// Makes the components once `file` is read. `where` and `config_where` name the files in errors.
void Tokenizer::State::build(const Json& fields, const std::string& where, const std::string& config_where) {
  config = read_tokenizer_config(fields, config_where);
  const Json& json = *file.rest;
  normalizer = make_normalizer(field(json, "normalizer", where), where + "normalizer");
  pre_tokenizer = make_pre_tokenizer(field(json, "pre_tokenizer", where), where + "pre_tokenizer");
  model = make_token_model(file, where + "model");
  post_processor = make_post_processor(field(json, "post_processor", where), where + "post_processor");
  decoder = make_decoder(field(json, "decoder", where), where + "decoder");
  byte_pairs = string_field(field(json, "model", where), "type", where, "") == "BPE" || !file.merges.empty();
  if (config.suffix_ends_word)
    end_of_word_suffix = string_field(field(json, "model", where), "end_of_word_suffix", where, "");
  std::vector<AddedToken> added = read_added_tokens(field(json, "added_tokens", where), where + "added_tokens");
  add_special_tokens(config, *file.vocabulary, added);
  added_tokens = std::make_unique<AddedTokens>(std::move(added), normalizer.get(), *file.vocabulary);
}

Tokenizer Tokenizer::from_pretrained(const std::string& directory) {
  const fs::path folder(resolve_tokenizer(directory));
  auto state = std::make_shared<State>();
  try {
    Json config = Json::object();
    for (const char* name : {"special_tokens_map.json", "tokenizer_config.json", "tokenizer.json", "vocab.txt"})
      if (fs::exists(folder / name)) state->files.emplace_back(name, read_file(folder / name));
    for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"})
      if (const std::string* text = state->find_file(name)) update(config, *text, (folder / name).string());
    const std::string* json = state->find_file("tokenizer.json");
    const std::string* vocabulary = state->find_file("vocab.txt");
    require(json || vocabulary, "{}: expected tokenizer.json or vocab.txt, found neither", quoted(directory, 200));
    const std::string where = (folder / (json ? "tokenizer.json" : "vocab.txt")).string();
    if (!json) name_bert_tokens(config);
    state->file = json ? read_tokenizer_json(*json, where) : read_bert_vocabulary(*vocabulary, config, where);
    state->build(config, where + ": ", (folder / "tokenizer_config.json").string());
  } catch (const Json::exception& error) {
    fail("{}: {}", quoted(directory, 200), error.what());
  } catch (const fs::filesystem_error& error) {
    fail("{}: {}", quoted(directory, 200), error.code().message());
  }
  return Tokenizer(std::move(state));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json,
                               const std::string& where) {
  auto state = std::make_shared<State>();
  try {
    Json config = Json::object();
    state->files.emplace_back("tokenizer.json", tokenizer_json);
    if (!config_json.empty()) {
      state->files.emplace_back("tokenizer_config.json", config_json);
      update(config, config_json, "tokenizer_config.json");
    }
    state->file = read_tokenizer_json(tokenizer_json, where);
    state->build(config, where + ": ", "tokenizer_config.json");
  } catch (const Json::exception& error) {
    fail("{}: {}", where, error.what());
  }
  return Tokenizer(std::move(state));
}

Encoding Tokenizer::State::encode_one(std::string_view text, int64_t sequence) const {
  Pieces pieces = added_tokens->extract(well_formed(text), normalizer.get());
  if (pre_tokenizer) pre_tokenizer->apply(pieces);
  Encoding result;
  std::vector<ModelToken> tokens;
  int64_t word = -1;
  for (const Piece& piece : pieces.pieces) {
    tokens.clear();
    if (piece.token >= 0) tokens.push_back({piece.token, 0, piece.end - piece.begin});
    else model->tokenize(pieces.text.view(piece.begin, piece.end), tokens);
    ++word;
    for (const ModelToken& token : tokens) {
      const Span span = pieces.text.original(piece.begin + token.begin, piece.begin + token.end);
      result.ids.push_back(token.id);
      result.offsets.emplace_back(span.begin, span.end);
      // An added token may have taken spaces along: the post-processor sees them, name_tokens() removes them.
      result.tokens.emplace_back(piece.token >= 0 ? pieces.text.view(piece.begin, piece.end)
                                                  : file.vocabulary->text(token.id).value_or(std::string_view()));
      result.word_ids.push_back(word);
    }
  }
  result.type_ids.assign(result.size(), sequence);
  result.sequence_ids.assign(result.size(), sequence);
  result.attention_mask.assign(result.size(), 1);
  result.special_tokens_mask.assign(result.size(), 0);
  return result;
}

void Tokenizer::State::name_tokens(Encoding& encoding) const {
  for (size_t i = 0; i < encoding.size(); ++i) {
    const std::string_view name = file.vocabulary->text(encoding.ids[i]).value_or(encoding.tokens[i]);
    if (name != encoding.tokens[i]) encoding.tokens[i] = std::string(name);
  }
  for (Encoding& part : encoding.overflowing) name_tokens(part);
}

Encoding Tokenizer::State::encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const {
  std::vector<Encoding> parts;
  parts.push_back(encode_one(text, 0));
  if (pair) parts.push_back(encode_one(*pair, 1));
  return finish(std::move(parts), options);
}

// Truncates, adds special tokens, and joins.
Encoding Tokenizer::State::finish(std::vector<Encoding> parts, const EncodeOptions& options) const {
  const bool two = parts.size() > 1;
  const std::optional<int64_t> maximum = maximum_length(options);
  if (options.truncation != Truncation::kNone && maximum) {
    require(*maximum >= 0 && options.stride >= 0, "max_length and stride: expected at least 0, found {} and {}",
            *maximum, options.stride);
    const size_t added = options.add_special_tokens && post_processor ? post_processor->added_tokens(two) : 0;
    const auto length = static_cast<size_t>(*maximum);
    truncate(parts[0], two ? &parts[1] : nullptr, length > added ? length - added : 0, options,
             options.truncation_side.value_or(config.truncation_side));
  }
  if (post_processor) post_processor->apply(parts, options.add_special_tokens);
  Encoding result;
  if (!parts.empty()) result = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) merge(result, parts[i]);
  name_tokens(result);
  return result;
}

void Tokenizer::State::pad(std::span<Encoding> batch, const EncodeOptions& options) const {
  if (options.padding == Padding::kNone) return;
  size_t length = 0;
  if (const auto maximum = maximum_length(options); options.padding == Padding::kMaxLength && maximum) {
    require(*maximum >= 0 && *maximum < Vocabulary::kMaximumId, "max_length: expected 0 to {}, found {}",
            Vocabulary::kMaximumId, *maximum);
    length = static_cast<size_t>(*maximum);
  } else {
    for (const Encoding& encoding : batch) {
      length = std::max(length, encoding.size());
      for (const Encoding& part : encoding.overflowing) length = std::max(length, part.size());
    }
  }
  if (options.pad_to_multiple_of > 0) {
    require(options.pad_to_multiple_of < Vocabulary::kMaximumId, "pad_to_multiple_of: expected less than {}, found {}",
            Vocabulary::kMaximumId, options.pad_to_multiple_of);
    const auto multiple = static_cast<size_t>(options.pad_to_multiple_of);
    length = (length + multiple - 1) / multiple * multiple;
  }
  const auto token = config.special_tokens.find("pad");
  require(token != config.special_tokens.end(), "padding: the tokenizer has no pad_token in its tokenizer_config.json");
  const int64_t id = file.vocabulary->find(token->second);
  const Side side = options.padding_side.value_or(config.padding_side);
  for (Encoding& encoding : batch) text::pad(encoding, length, id, token->second, side);
}

Encoding Tokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                           const EncodeOptions& options) const {
  if (pair && pair->empty()) pair.reset();
  Encoding result = state_->encode(text, pair, options);
  state_->pad(std::span(&result, 1), options);
  return result;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts, std::span<const std::string> pairs,
                                              const EncodeOptions& options) const {
  require(pairs.empty() || pairs.size() == texts.size(), "encode_batch: expected as many pairs as texts, {}, found {}",
          texts.size(), pairs.size());
  std::vector<Encoding> result(texts.size());
  parallel_for(texts.size(), [&](size_t i) {
    const auto pair = pairs.empty() ? std::nullopt : std::optional<std::string_view>(pairs[i]);
    result[i] = state_->encode(texts[i], pair, options);
  });
  state_->pad(result, options);
  return result;
}

Encoding Tokenizer::encode_words(std::span<const std::string> words, const EncodeOptions& options) const {
  std::vector<Encoding> parts(1);
  for (size_t i = 0; i < words.size(); ++i) {
    Encoding word = state_->encode_one(words[i], 0);
    std::fill(word.word_ids.begin(), word.word_ids.end(), static_cast<int64_t>(i));
    merge(parts[0], word);
  }
  Encoding result = state_->finish(std::move(parts), options);
  state_->pad(std::span(&result, 1), options);
  return result;
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens,
                              std::optional<bool> clean_up) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    if (skip_special_tokens && state_->added_tokens->is_special(id)) continue;
    if (const auto text = state_->file.vocabulary->text(id)) tokens.emplace_back(*text);
  }
  if (state_->decoder) state_->decoder->apply(tokens);
  std::string result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !state_->decoder) result += ' ';
    result += tokens[i];
  }
  if (const std::string& suffix = state_->end_of_word_suffix; !suffix.empty()) {
    result = stripped(replace_all(std::move(result), suffix, " "));
  }
  if (clean_up.value_or(state_->config.clean_up) && !state_->byte_pairs) result = clean_up_spaces(std::move(result));
  return result;
}

std::optional<int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const int64_t id = state_->file.vocabulary->find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<std::string> Tokenizer::id_to_token(int64_t id) const {
  const auto text = state_->file.vocabulary->text(id);
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

int64_t Tokenizer::vocab_size() const { return state_->file.vocabulary->size(); }

std::optional<std::string> Tokenizer::special_token(std::string_view role) const {
  const auto found = state_->config.special_tokens.find(role);
  return found == state_->config.special_tokens.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> Tokenizer::special_token_id(std::string_view role) const {
  const auto token = special_token(role);
  return token ? token_to_id(*token) : std::nullopt;
}

std::vector<int64_t> Tokenizer::all_special_ids() const { return state_->added_tokens->special_ids(); }
std::optional<int64_t> Tokenizer::model_max_length() const { return state_->config.model_max_length; }
const std::vector<std::string>& Tokenizer::model_input_names() const { return state_->config.model_input_names; }
Side Tokenizer::padding_side() const { return state_->config.padding_side; }
Side Tokenizer::truncation_side() const { return state_->config.truncation_side; }

void Tokenizer::save_pretrained(const std::string& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("{}: cannot make the directory: {}", quoted(directory, 200), error.message());
  for (const auto& [name, content] : state_->files) write_file(fs::path(directory) / name, content);
}

}  // namespace transom
