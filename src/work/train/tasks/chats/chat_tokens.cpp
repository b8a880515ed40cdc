// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/chat_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "transom/batch.h"
#include "work/generation/image_text/chat_parts.h"

namespace transom {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

template <typename Sequence>
size_t common_prefix(const Sequence& a, const Sequence& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

Json slice_of(const Json& messages, size_t count) {
  return Json(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

}  // namespace

std::vector<char> tokens_within(const Encoding& encoding, std::string_view text, const Spans& spans) {
  std::vector<int64_t> character_of(text.size() + 1, 0);  // the number of the character that each byte belongs to
  int64_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    characters += begins;
    character_of[i] = characters - 1;
  }
  character_of[text.size()] = characters;
  std::vector<char> within(encoding.size(), 0);
  for (const auto& [begin, end] : spans) {
    const int64_t from = character_of[begin], to = character_of[end];
    for (size_t i = 0; i < encoding.size(); ++i)
      if (encoding.offsets[i].first < to && encoding.offsets[i].second > from) within[i] = 1;
  }
  return within;
}

ChatEncoder::ChatEncoder(Tokenizer tokenizer, ChatTokenOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  if (!options_.assistant_only_loss) return;
  const std::string& source = tokenizer_.chat_template({.chat_template = options_.chat_template});
  marks_ = source.find("endgeneration") != source.npos;
}

ChatOptions ChatEncoder::chat_options(const ChatRow& row) const {
  ChatOptions options;
  options.chat_template = options_.chat_template;
  options.tools = row.tools;
  options.variables = row.variables;
  return options;
}

// A template without marks is asked what it writes up to each turn of the assistant, and what with it.
Spans ChatEncoder::assistant_spans(const Json& messages, const ChatText& chat, const ChatOptions& options,
                                   const std::string& where) const {
  if (marks_) return chat.generated;
  Spans spans;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i]["role"] != "assistant") continue;
    ChatOptions before = options;
    before.mark_generated = false;
    ChatOptions with = before;
    before.add_generation_prompt = true;
    require(i > 0,
            "{}: message 1 is the assistant's: what it answers is not there, and the chat template does not say "
            "what it writes; give one with {{% generation %}} as --chat_template_path",
            where);
    const std::string prompt = tokenizer_.apply_chat_template(dump_json(slice_of(messages, i)), before);
    const std::string answered = tokenizer_.apply_chat_template(dump_json(slice_of(messages, i + 1)), with);
    const size_t end = common_prefix(answered, chat.text);
    require(chat.text.starts_with(prompt) && end > prompt.size(),
            "{}: message {}: the chat template writes this turn otherwise where others follow, so that it is not known "
            "what of it is the assistant's; give a template with {{% generation %}} as --chat_template_path, or leave "
            "out --assistant_only_loss",
            where, i + 1);
    spans.emplace_back(prompt.size(), end);
  }
  return spans;
}

ChatTokens ChatEncoder::encode_chat(const ChatRow& row, const std::string& where) const {
  Json messages = row.prompt.is_null() ? Json::array() : row.prompt;
  messages.insert(messages.end(), row.completion.begin(), row.completion.end());
  ChatOptions options = chat_options(row);
  messages = fitting_texts(messages, tokenizer_, options);
  options.mark_generated = marks_;
  const ChatText chat = tokenizer_.render_chat(dump_json(messages), options);
  const EncodeOptions as_it_stands{.add_special_tokens = false};  // the template writes them
  Encoding encoding = tokenizer_.encode(chat.text, std::nullopt, as_it_stands);
  ChatTokens result;
  result.labels = encoding.ids;
  const auto learn_only = [&](const std::vector<char>& these) {
    for (size_t i = 0; i < result.labels.size(); ++i)
      if (!these[i]) result.labels[i] = kIgnoredLabel;
  };
  if (options_.assistant_only_loss)
    learn_only(tokens_within(encoding, chat.text, assistant_spans(messages, chat, options, where)));
  if (!row.prompt.is_null()) {
    ChatOptions before = chat_options(row);
    before.add_generation_prompt = true;
    const std::vector<int64_t> prompt =
        tokenizer_
            .encode(tokenizer_.apply_chat_template(dump_json(slice_of(messages, row.prompt.size())), before),
                    std::nullopt, as_it_stands)
            .ids;
    const size_t length = common_prefix(prompt, encoding.ids);
    result.changed_prompt_tokens = prompt.size() - length;
    if (options_.completion_only_loss) std::fill_n(result.labels.begin(), length, kIgnoredLabel);
  }
  result.ids = std::move(encoding.ids);
  return result;
}

ChatTokens ChatEncoder::encode_text(const ChatRow& row) const {
  std::string end = row.completion.get<std::string>();
  if (!end.ends_with(options_.eos_token)) end += options_.eos_token;
  ChatTokens result;
  const std::string before = row.prompt.is_null() ? "" : row.prompt.get<std::string>();
  result.ids = tokenizer_.encode(before + end).ids;
  result.labels = result.ids;
  if (row.prompt.is_null()) return result;
  const std::vector<int64_t> prompt = tokenizer_.encode(before).ids;
  const size_t length = common_prefix(prompt, result.ids);
  result.changed_prompt_tokens = prompt.size() - length;
  if (options_.completion_only_loss) std::fill_n(result.labels.begin(), length, kIgnoredLabel);
  return result;
}

ChatTokens ChatEncoder::encode(const ChatRow& row, const std::string& where) const {
  ChatTokens tokens;
  try {
    tokens = options_.pictures ? encode_seen(row, where) : row.is_chat() ? encode_chat(row, where) : encode_text(row);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where)) throw;
    fail("{}: {}", where, error.what());
  }
  const bool learns =
      std::any_of(tokens.labels.begin(), tokens.labels.end(), [](int64_t id) { return id != kIgnoredLabel; });
  require(learns, "{}: expected tokens to learn, found none{}", where,
          marks_ ? ": the chat template's {% generation %} marks none of them" : "");
  if (options_.max_length && static_cast<int64_t>(tokens.ids.size()) > *options_.max_length) {
    if (options_.pictures && !row.pictures.empty())
      require(std::find(tokens.ids.begin() + *options_.max_length, tokens.ids.end(),
                        options_.pictures->image_token_id()) == tokens.ids.end(),
              "{}: {} tokens, and a picture reaches beyond max_length {}: raise --max_length", where, tokens.ids.size(),
              *options_.max_length);
    for (std::vector<int64_t>* sequence : {&tokens.ids, &tokens.labels}) {
      if (options_.keep_end) sequence->erase(sequence->begin(), sequence->end() - *options_.max_length);
      else sequence->resize(static_cast<size_t>(*options_.max_length));
    }
  }
  return tokens;
}

std::string ChatEncoder::marked_text(const ChatTokens& tokens) const {
  std::string text;
  for (size_t begin = 0, end = 0; begin < tokens.ids.size(); begin = end) {
    const bool learnt = tokens.labels[begin] != kIgnoredLabel;
    while (end < tokens.ids.size() && (tokens.labels[end] != kIgnoredLabel) == learnt) ++end;
    const std::string part = tokenizer_.decode({tokens.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                                tokens.ids.begin() + static_cast<std::ptrdiff_t>(end)});
    text += learnt ? "»" + part + "«" : part;
  }
  return options_.pictures ? with_places_counted(text) : text;
}

}  // namespace transom
