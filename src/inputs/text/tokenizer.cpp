// SPDX-License-Identifier: Apache-2.0
#include "transom/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/threads.h"
#include "inputs/text/encoding.h"
#include "inputs/text/tokenizer_state.h"
#include "inputs/text/unicode/clean_up.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {

using namespace text;

Encoding Tokenizer::State::encode_one(std::string_view text, int64_t sequence, const EncodeOptions& options) const {
  const auto& [normalizer, pre_tokenizer, model, post_processor, decoder] = components(options);
  Pieces pieces = added_tokens->extract(well_formed(text), normalizer.get(), options.split_special_tokens);
  if (pre_tokenizer) pre_tokenizer->apply(pieces);
  const Vocabulary& words = vocabulary(options);
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
                                                  : words.text(token.id).value_or(std::string_view()));
      result.word_ids.push_back(word);
    }
  }
  result.type_ids.assign(result.size(), sequence);
  result.sequence_ids.assign(result.size(), sequence);
  result.attention_mask.assign(result.size(), 1);
  result.special_tokens_mask.assign(result.size(), 0);
  return result;
}

void Tokenizer::State::name_tokens(Encoding& encoding, const Vocabulary& vocabulary) const {
  for (size_t i = 0; i < encoding.size(); ++i) {
    const std::string_view name = vocabulary.text(encoding.ids[i]).value_or(encoding.tokens[i]);
    if (name != encoding.tokens[i]) encoding.tokens[i] = std::string(name);
  }
  for (Encoding& part : encoding.overflowing) name_tokens(part, vocabulary);
}

Encoding Tokenizer::State::encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const {
  std::vector<Encoding> parts;
  parts.push_back(encode_one(text, 0, options));
  if (pair) parts.push_back(encode_one(*pair, 1, options));
  return finish(std::move(parts), options);
}

// Truncates, adds special tokens, and joins.
Encoding Tokenizer::State::finish(std::vector<Encoding> parts, const EncodeOptions& options) const {
  const bool two = parts.size() > 1;
  const PostProcessor* post_processor = components(options).post_processor.get();
  const std::optional<int64_t> maximum = maximum_length(options);
  if (options.truncation != Truncation::kNone && maximum) {
    require(*maximum >= 0 && options.stride >= 0, "max_length and stride: expected at least 0, found {} and {}",
            *maximum, options.stride);
    const size_t added = options.add_special_tokens && post_processor ? post_processor->added_tokens(two) : 0;
    const auto length = static_cast<size_t>(*maximum);
    const size_t left = length > added ? length - added : 0;
    const Side side = options.truncation_side.value_or(config.truncation_side);
    Encoding* const second = two ? &parts[1] : nullptr;
    if (has_offsets) truncate(parts[0], second, left, options, side);
    else truncate_plainly(parts[0], second, left, options, side);
  }
  if (post_processor) post_processor->apply(parts, options.add_special_tokens);
  Encoding result;
  if (!parts.empty()) result = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) merge(result, parts[i]);
  name_tokens(result, vocabulary(options));
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
    Encoding word = state_->encode_one(words[i], 0, options);
    std::fill(word.word_ids.begin(), word.word_ids.end(), static_cast<int64_t>(i));
    merge(parts[0], word);
  }
  Encoding result = state_->finish(std::move(parts), options);
  state_->pad(std::span(&result, 1), options);
  return result;
}

namespace {

// Whisper's class writes no times: "<|0.08|>" is left out.
std::string without_times(std::string text) {
  for (size_t at = 0; (at = text.find("<|", at)) != text.npos; ++at) {
    const auto digits = [&](size_t from) {
      while (from < text.size() && text[from] >= '0' && text[from] <= '9') ++from;
      return from;
    };
    const size_t point = digits(at + 2), end = digits(point + 1);
    if (point == at + 2 || end == point + 1 || text.compare(point, 1, ".") != 0 || text.compare(end, 2, "|>") != 0)
      continue;
    text.erase(at, end + 2 - at);
    if (at > 0) --at;
  }
  return text;
}

}  // namespace

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens,
                              std::optional<bool> clean_up) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    const auto text = state_->decoding_vocabulary().text(id);
    if (!text) continue;
    if (skip_special_tokens && state_->added_tokens->is_skipped(id) && *text != state_->kept_special) continue;
    tokens.emplace_back(*text);
  }
  const Decoder* decoder = state_->parts.decoder.get();
  if (decoder != nullptr) decoder->apply(tokens);
  std::string result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && decoder == nullptr) result += ' ';
    result += tokens[i];
  }
  if (const std::string& suffix = state_->end_of_word_suffix; !suffix.empty()) {
    result = stripped(replace_all(std::move(result), suffix, " "));
  }
  if (clean_up.value_or(state_->config.clean_up) && !state_->byte_pairs) result = clean_up_spaces(std::move(result));
  if (state_->file.vocabulary->find("<|notimestamps|>") >= 0) result = without_times(std::move(result));
  return result;
}

std::string Tokenizer::apply_chat_template(std::string_view messages, const ChatOptions& options) const {
  return render_chat(messages, options).text;
}

const std::string& Tokenizer::chat_template(const ChatOptions& options) const {
  return choose_chat_template(state_->chat_templates, options);
}

ChatText Tokenizer::render_chat(std::string_view messages, const ChatOptions& options) const {
  std::map<std::string, std::string> special;
  for (const auto& [role, token] : state_->config.special_tokens) special[role + "_token"] = token;
  return text::render_chat(choose_chat_template(state_->chat_templates, options), messages, options, special);
}

bool Tokenizer::has_chat_template() const { return !state_->chat_templates.empty(); }

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
bool Tokenizer::has_offsets() const { return state_->has_offsets; }
Side Tokenizer::padding_side() const { return state_->config.padding_side; }
Side Tokenizer::truncation_side() const { return state_->config.truncation_side; }

}  // namespace transom
