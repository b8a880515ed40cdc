// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/shown_answers.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/maximum_tokens.h"
#include "transom/gradients.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/train/tasks/written_texts.h"

namespace transom {
namespace {

std::string text_of_message(const Json& message) {
  const Json content = message.value("content", Json());
  return content.is_string() ? content.get<std::string>() : dump_json(message);
}

// The prompt of a row and what it wants behind it. Rows were read and found right before.
std::pair<Json, std::string> parted(const ChatRow& row, const std::string& where) {
  if (!row.prompt.is_null())
    return {row.prompt, row.is_chat() ? text_of_message(row.completion.at(0)) : row.completion.get<std::string>()};
  if (row.is_chat())
    for (size_t i = row.completion.size(); i-- > 1;)
      if (row.completion[i].value("role", "") == "assistant")
        return {Json(row.completion.begin(), row.completion.begin() + static_cast<ptrdiff_t>(i)),
                text_of_message(row.completion[i])};
  fail(ErrorKind::kUsage, "--num_samples_to_print: {} has no prompt that could be answered: leave it out", where);
}

}  // namespace

ShownAnswers::ShownAnswers(const ChatRows& rows, const Tokenizer& tokenizer, const std::string& chat_template,
                           int64_t count, GenerationConfig config)
    : tokenizer_(tokenizer), config_(std::move(config)) {
  if (rows.has_pictures())
    fail(ErrorKind::kUnsupported, "--num_samples_to_print: not with pictures in the rows: leave it out");
  for (int64_t i = 0; i < std::min(count, rows.data().size()); ++i) {
    const ChatRow row = rows.row(i);
    const auto [prompt, wanted] = parted(row, rows.data().where(i));
    TokenIds ids;
    if (prompt.is_string()) {
      ids = tokenizer.encode(prompt.get<std::string>()).ids;
      if (ids.size() > 1 && tokenizer.eos_token_id() == ids.back()) ids.pop_back();  // nothing follows an end
    } else {
      const ChatOptions form{.add_generation_prompt = true,
                             .chat_template = chat_template,
                             .tools = row.tools,
                             .variables = row.variables};
      const std::string text = tokenizer.apply_chat_template(dump_json(fitting_texts(prompt, tokenizer, form)), form);
      ids = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
    }
    prompts_.push_back(std::move(ids));
    wanted_.push_back(wanted);
  }
}

void ShownAnswers::show(const Model& model) const {
  const NoGradient only_numbers;
  const std::optional<int64_t> most = maximum_tokens(model.config());
  std::vector<std::string> written;
  for (const TokenIds& prompt : prompts_) {
    const auto length = static_cast<int64_t>(prompt.size());
    GenerationConfig config = config_;
    if (most) config.max_new_tokens = std::min(*config.max_new_tokens, *most - length);
    if (length == 0 || *config.max_new_tokens < 1) {
      written.emplace_back();
      continue;
    }
    const NamedTensors inputs{{"input_ids", Tensor::from(prompt, {1, length})},
                              {"attention_mask", Tensor::from(std::vector<int64_t>(prompt.size(), 1), {1, length})}};
    const TokenIds row = generate(model, inputs, config).sequences.at(0);
    written.push_back(tokenizer_.decode({row.begin() + static_cast<ptrdiff_t>(prompt.size()), row.end()}, true));
  }
  show_samples(static_cast<int64_t>(written.size()), wanted_, written);
}

}  // namespace transom
