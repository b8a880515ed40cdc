// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/preference_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "work/generation/image_text/chat_parts.h"

namespace transom {
namespace {

template <typename Sequence>
size_t shared_beginning(const Sequence& a, const Sequence& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Errors of templates and tokenizers say which row they are about.
template <typename Make>
auto named(const std::string& where, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(where)) throw;
    fail("{}: {}", where, error.what());
  }
}

Json joined_messages(const Json& first, const Json& second) {
  Json all = first.is_null() ? Json::array() : first;
  if (!second.is_null()) all.insert(all.end(), second.begin(), second.end());
  return all;
}

}  // namespace

PreferenceEncoder::PreferenceEncoder(Tokenizer tokenizer, std::string chat_template, std::string eos_token)
    : tokenizer_(std::move(tokenizer)), chat_template_(std::move(chat_template)), eos_token_(std::move(eos_token)) {}

std::string PreferenceEncoder::text_of(const Json& first, const Json& second, const ChatOptions& options) const {
  return tokenizer_.apply_chat_template(dump_json(fitting_texts(joined_messages(first, second), tokenizer_, options)),
                                        options);
}

// `opens`: ends with the beginning of an answer.
std::vector<int64_t> PreferenceEncoder::tokens_of(const Json& first, const Json& second, bool opens,
                                                  const std::string& tools, const std::string& variables) const {
  if (first.is_array() || second.is_array()) {
    ChatOptions options;
    options.add_generation_prompt = opens;
    options.chat_template = chat_template_;
    options.tools = tools;
    options.variables = variables;
    return tokenizer_.encode(text_of(first, second, options), std::nullopt, {.add_special_tokens = false}).ids;
  }
  std::string text = first.is_null() ? "" : first.get<std::string>();
  if (!second.is_null()) {
    text += second.get<std::string>();
    if (!second.get_ref<const std::string&>().ends_with(eos_token_)) text += eos_token_;
  }
  return tokenizer_.encode(text).ids;
}

PairTokens PreferenceEncoder::pair(const PreferenceRow& row, const std::string& where) const {
  return named(where, [&] {
    const std::vector<int64_t> prompt = tokens_of(row.prompt, {}, true, row.tools, row.variables);
    PairTokens tokens;
    tokens.chosen.ids = tokens_of(row.prompt, row.chosen, false, row.tools, row.variables);
    tokens.rejected.ids = tokens_of(row.prompt, row.rejected, false, row.tools, row.variables);
    const size_t length =
        std::min(shared_beginning(prompt, tokens.chosen.ids), shared_beginning(prompt, tokens.rejected.ids));
    tokens.chosen.prompt = tokens.rejected.prompt = length;
    tokens.changed_prompt_tokens = prompt.size() - length;
    return tokens;
  });
}

AnswerTokens PreferenceEncoder::answer(const AnswerRow& row, const std::string& where) const {
  return named(where, [&] {
    const std::vector<int64_t> prompt = tokens_of(row.prompt, {}, true, row.tools, row.variables);
    AnswerTokens tokens;
    tokens.answer.ids = tokens_of(row.prompt, row.completion, false, row.tools, row.variables);
    tokens.answer.prompt = shared_beginning(prompt, tokens.answer.ids);
    tokens.changed_prompt_tokens = prompt.size() - tokens.answer.prompt;
    return tokens;
  });
}

PairTokens PreferenceEncoder::whole(const PreferenceRow& row, const std::string& where) const {
  return named(where, [&] {
    PairTokens tokens;
    tokens.chosen.ids = tokens_of(row.prompt, row.chosen, false, row.tools, row.variables);
    tokens.rejected.ids = tokens_of(row.prompt, row.rejected, false, row.tools, row.variables);
    return tokens;
  });
}

PairTokens PreferenceEncoder::cut(const PreferenceRow& row, const std::string& where) const {
  return named(where, [&] {
    std::string prompt, chosen, rejected;
    if (row.is_chat()) {
      ChatOptions options;
      options.chat_template = chat_template_;
      options.tools = row.tools;
      options.variables = row.variables;
      ChatOptions before = options;
      before.continue_final_message = row.prompt.back()["role"] == "assistant";
      before.add_generation_prompt = !before.continue_final_message;
      prompt = text_of(row.prompt, {}, before);
      chosen = text_of(row.prompt, row.chosen, options), rejected = text_of(row.prompt, row.rejected, options);
      // Templates write the beginning of an answer otherwise where the answer follows.
      prompt.resize(shared_beginning(prompt, chosen));
      prompt.resize(shared_beginning(prompt, rejected));
      while (!prompt.empty() && prompt.size() < chosen.size() &&
             (static_cast<unsigned char>(chosen[prompt.size()]) & 0xC0) == 0x80)
        prompt.pop_back();
    } else {
      prompt = row.prompt.get<std::string>();
      chosen = prompt + row.chosen.get<std::string>(), rejected = prompt + row.rejected.get<std::string>();
    }
    const EncodeOptions as_it_stands{.add_special_tokens = false};
    const std::vector<int64_t> alone = tokenizer_.encode(prompt, std::nullopt, as_it_stands).ids;
    const auto bos = tokenizer_.bos_token_id(), eos = tokenizer_.eos_token_id();
    const auto encoded = [&](const std::string& text) {
      PromptedTokens tokens{tokenizer_.encode(text, std::nullopt, as_it_stands).ids, alone.size()};
      // A token that crosses the end of the prompt is the answer's.
      if (shared_beginning(alone, tokens.ids) < alone.size()) tokens.prompt -= 1;
      tokens.prompt = std::min(tokens.prompt, tokens.ids.size());
      const bool has_answer = tokens.ids.size() > tokens.prompt;
      if (eos && (!has_answer || tokens.ids.back() != *eos)) tokens.ids.push_back(*eos);
      if (bos && (tokens.prompt == 0 || tokens.ids.front() != *bos))
        tokens.ids.insert(tokens.ids.begin(), *bos), ++tokens.prompt;
      return tokens;
    };
    PairTokens tokens{.chosen = encoded(chosen), .rejected = encoded(rejected)};
    const size_t shorter = std::min(tokens.chosen.prompt, tokens.rejected.prompt);
    size_t others = 0;
    for (size_t i = 0; i < shorter; ++i) others += tokens.chosen.ids[i] != tokens.rejected.ids[i];
    require(others <= 1, "{}: the prompt has other tokens before the chosen than before the rejected answer", where);
    return tokens;
  });
}

}  // namespace transom
