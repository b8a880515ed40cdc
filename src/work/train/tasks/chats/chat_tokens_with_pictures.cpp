// SPDX-License-Identifier: Apache-2.0
// Rows with pictures as tokens. What TRL's DataCollatorForVisionLanguageModeling makes of them: contents are lists of
// parts, a prompt and its completion are cut into tokens apart, nothing ends a text that does not end by itself, and no
// special tokens are added.
#include <algorithm>

#include "base/error.h"
#include "inputs/images/picture_source.h"
#include "transom/batch.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/train/tasks/chats/chat_tokens.h"

namespace transom {
namespace {

Json joined_messages(const Json& prompt, const Json& completion) {
  Json messages = prompt;
  messages.insert(messages.end(), completion.begin(), completion.end());
  return messages;
}

// How many bytes two texts begin with alike, whole characters alone.
size_t common_text(const std::string& a, const std::string& b) {
  auto length = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto continues = [](const std::string& text, size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (length > 0 && (continues(a, length) || continues(b, length))) --length;
  return length;
}

constexpr EncodeOptions kAsWritten{.add_special_tokens = false};

}  // namespace

Json ChatEncoder::fitting(Json messages, const ChatOptions& options) const {
  return writes_parts(tokenizer_, options) ? listed_parts(std::move(messages))
                                           : joined_parts(std::move(messages), options_.pictures->image_token());
}

// "<image>x576" for so many of them side by side.
std::string ChatEncoder::with_places_counted(const std::string& text) const {
  const std::string& token = options_.pictures->image_token();
  std::string result;
  size_t end = 0;
  for (size_t at = text.find(token); at != text.npos; at = text.find(token, end)) {
    result += text.substr(end, at - end) + token;
    int64_t places = 0;
    for (end = at; text.compare(end, token.size(), token) == 0; end += token.size()) ++places;
    if (places > 1) result += fmt::format("x{}", places);
  }
  return result + text.substr(end);
}

ChatTokens ChatEncoder::encode_seen_whole(const ChatRow& row, std::span<const ImageProcessor::Pixels> pictures,
                                          const std::string& where) const {
  ChatText chat;
  std::vector<std::pair<size_t, size_t>> spans;
  if (row.is_chat()) {
    ChatOptions options = chat_options(row);
    const Json messages = fitting(row.completion, options);
    options.mark_generated = marks_;
    chat = tokenizer_.render_chat(dump_json(messages), options);
    if (options_.assistant_only_loss) spans = assistant_spans(messages, chat, options, where);
  } else {
    chat.text = row.completion.get<std::string>();
  }
  std::vector<size_t> bytes;
  for (const auto& [begin, end] : spans) bytes.push_back(begin), bytes.push_back(end);
  const std::string text = options_.pictures->expanded(chat.text, pictures, bytes);
  Encoding encoding = tokenizer_.encode(text, std::nullopt, kAsWritten);
  ChatTokens result;
  result.labels = encoding.ids;
  if (options_.assistant_only_loss) {
    for (size_t i = 0; i < spans.size(); ++i) spans[i] = {bytes[2 * i], bytes[2 * i + 1]};
    const std::vector<char> learnt = tokens_within(encoding, text, spans);
    for (size_t i = 0; i < learnt.size(); ++i)
      if (!learnt[i]) result.labels[i] = kIgnoredLabel;
  }
  result.ids = std::move(encoding.ids);
  return result;
}

ChatTokens ChatEncoder::encode_seen_prompt(const ChatRow& row, std::span<const ImageProcessor::Pixels> pictures) const {
  std::string prompt, completion;
  if (row.is_chat()) {
    ChatOptions options = chat_options(row), before = options;
    const Json messages = fitting(row.prompt, options);
    before.continue_final_message = messages.back()["role"] == "assistant";
    before.add_generation_prompt = !before.continue_final_message;
    prompt = tokenizer_.apply_chat_template(dump_json(messages), before);
    const std::string whole =
        tokenizer_.apply_chat_template(dump_json(joined_messages(messages, fitting(row.completion, options))), options);
    prompt.resize(common_text(prompt, whole));
    completion = whole.substr(prompt.size());
  } else {
    prompt = row.prompt.get<std::string>(), completion = row.completion.get<std::string>();
  }
  ChatTokens result;
  result.ids = tokenizer_.encode(options_.pictures->expanded(prompt, pictures), std::nullopt, kAsWritten).ids;
  const size_t length = result.ids.size();
  // What a processor puts before any text that it is given does not stand in the middle of one.
  if (!options_.pictures->groups_pictures()) completion = options_.pictures->expanded(completion, {});
  const std::vector<int64_t> answer = tokenizer_.encode(completion, std::nullopt, kAsWritten).ids;
  result.ids.insert(result.ids.end(), answer.begin(), answer.end());
  result.labels = result.ids;
  if (options_.completion_only_loss) std::fill_n(result.labels.begin(), length, kIgnoredLabel);
  return result;
}

ChatTokens ChatEncoder::encode_seen(const ChatRow& row, const std::string& where) const {
  std::vector<ImageProcessor::Pixels> pictures;
  const auto together = static_cast<int64_t>(row.pictures.size());
  for (const std::string& name : row.pictures)
    pictures.push_back(options_.pictures->prepared(read_picture(name), together));
  ChatTokens tokens =
      row.prompt.is_null() ? encode_seen_whole(row, pictures, where) : encode_seen_prompt(row, pictures);
  options_.pictures->places(tokens.ids, pictures);  // throws where they are not as many
  if (options_.pictures->groups_pictures())         // a token that is never written
    for (size_t i = 0; i < tokens.ids.size(); ++i)
      if (tokens.ids[i] == options_.pictures->image_token_id()) tokens.labels[i] = kIgnoredLabel;
  return tokens;
}

}  // namespace transom
