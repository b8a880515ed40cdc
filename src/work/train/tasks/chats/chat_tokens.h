// SPDX-License-Identifier: Apache-2.0
// From the messages or texts of a row to tokens, and which of them are learnt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transom/tokenizer.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/train/tasks/chats/chat_rows.h"

namespace transom {

struct ChatTokens {
  std::vector<int64_t> ids;
  std::vector<int64_t> labels;  // an id, or kIgnoredLabel where nothing is learnt
  // The end of the prompt, where it is written otherwise alone than before its completion: so many of its tokens are
  // not among `ids`.
  size_t changed_prompt_tokens = 0;
};

struct ChatTokenOptions {
  bool completion_only_loss = false;  // of rows with prompts
  bool assistant_only_loss = false;   // of messages
  std::optional<int64_t> max_length;  // longer rows are cut
  bool keep_end = false;              // cut in front
  std::string chat_template;          // in place of the tokenizer's
  std::string eos_token;              // ends texts; empty: nothing does
  // Of rows with pictures: they are written and cut into tokens as TRL does it, which differs a little: prompts and
  // completions apart, and texts end as they stand.
  std::shared_ptr<const ImageTextProcessor> pictures = nullptr;
};

// Which tokens have a character within the spans, which are in bytes of `text`.
std::vector<char> tokens_within(const Encoding& encoding, std::string_view text,
                                const std::vector<std::pair<size_t, size_t>>& spans);

// Safe from all threads.
class ChatEncoder {
 public:
  ChatEncoder(Tokenizer tokenizer, ChatTokenOptions options);

  // `where` names the row in errors. Labels may all be kIgnoredLabel where max_length cuts off what is learnt.
  ChatTokens encode(const ChatRow& row, const std::string& where) const;
  // The row as text, what is learnt of it between » and «. The tokens of a picture's places are told by their number.
  std::string marked_text(const ChatTokens& tokens) const;
  bool sees_pictures() const { return options_.pictures != nullptr; }
  const std::string& chat_template() const { return options_.chat_template; }  // in place of the tokenizer's

 private:
  ChatOptions chat_options(const ChatRow& row) const;
  ChatTokens encode_chat(const ChatRow& row, const std::string& where) const;
  ChatTokens encode_text(const ChatRow& row) const;
  // With pictures, chat_tokens_with_pictures.cpp.
  ChatTokens encode_seen(const ChatRow& row, const std::string& where) const;
  ChatTokens encode_seen_whole(const ChatRow& row, std::span<const ImageProcessor::Pixels> pictures,
                               const std::string& where) const;
  ChatTokens encode_seen_prompt(const ChatRow& row, std::span<const ImageProcessor::Pixels> pictures) const;
  Json fitting(Json messages, const ChatOptions& options) const;
  std::string with_places_counted(const std::string& text) const;
  // Bytes begin..end of `text` that the assistant writes.
  std::vector<std::pair<size_t, size_t>> assistant_spans(const Json& messages, const ChatText& chat,
                                                         const ChatOptions& options, const std::string& where) const;

  Tokenizer tokenizer_;
  ChatTokenOptions options_;
  bool marks_ = false;  // the template says what the assistant writes
};

}  // namespace transom
