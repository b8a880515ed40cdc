// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/policy_rows.h"

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "inputs/data/columns.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/train/loop/samplers.h"
#include "work/train/tasks/chats/messages.h"
#include "work/train/tasks/chats/row_values.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

Json variables_of(const std::string& of_row, const Json& of_run, const std::string& where) {
  Json variables = of_run;
  if (!of_row.empty()) variables.update(parse_json(of_row, where));
  return variables;
}

PolicyPrompt read_prompt(const Dataset& data, int64_t index, const TemplateColumns& columns, const Tokenizer& tokenizer,
                         const PromptOptions& options, bool is_chat) {
  const Row row = data.row(index);
  const std::string where = data.where(index);
  const size_t place = *data.find("prompt");
  Json given = json_of_cell(data, row, place, index);
  require(given.is_array() == is_chat, "{}: expected a prompt like that of the first row, {}, found {}", where,
          is_chat ? "a list of messages" : "a text", given.is_array() ? "a list" : given.type_name());
  PolicyPrompt prompt;
  if (is_chat) {
    Json messages = plain_messages(given, where + ", prompt");
    put_system_text(messages, text_beside(data, row, "system", index), where);
    require(messages.back()["role"] != "assistant",
            "{}: expected a prompt that ends before the assistant's turn, found a last message of the assistant",
            where);
    prompt.prompt = dump_json(messages);
    ChatOptions chat;
    chat.add_generation_prompt = true;
    chat.chat_template = options.chat_template;
    chat.tools = columns.tools(row, where);
    const Json variables = variables_of(columns.variables(row, where), options.variables, where);
    if (!variables.empty()) chat.variables = dump_json(variables);
    const std::string text = tokenizer.apply_chat_template(dump_json(fitting_texts(messages, tokenizer, chat)), chat);
    prompt.tokens = tokenizer.encode(text, std::nullopt, {.add_special_tokens = false}).ids;
  } else {
    require(given.is_string(), "{}: prompt: expected a text or a list of messages, found {}", where, given.type_name());
    prompt.prompt = given.get<std::string>();
    prompt.tokens =
        tokenizer.encode(prompt.prompt, std::nullopt, {.add_special_tokens = options.add_special_tokens}).ids;
  }
  require(!prompt.tokens.empty(), "{}: the prompt is empty", where);
  require(options.most_tokens <= 0 || static_cast<int64_t>(prompt.tokens.size()) <= options.most_tokens,
          "{}: the prompt has {} tokens: expected at most {}, {}", where, prompt.tokens.size(), options.most_tokens,
          options.why_most);
  for (size_t i = 0; i < data.columns().size(); ++i)
    if (i != place) prompt.columns[data.columns()[i].name] = dump_json(json_of_cell(data, row, i, index));
  return prompt;
}

}  // namespace

PolicyPrompts read_policy_prompts(const Dataset& given, const Tokenizer& tokenizer, const PromptOptions& options) {
  const Dataset data = with_texts_as_written(given, {"prompt", "system"});
  const auto place = data.find("prompt");
  if (!place)
    fail("{}: expected a column prompt, and others that rewards read; found {}", data.name(),
         fmt::join(column_names(data), ", "));
  for (const char* name : {"images", "image"})
    if (data.find(name))
      fail(ErrorKind::kUnsupported, "{}: column {}: policies are trained on texts alone; leave the column out",
           data.name(), name);
  require(data.size() > 0, "{}: expected rows, found none", data.name());
  PolicyPrompts prompts;
  prompts.is_chat = json_of_cell(data, data.row(0), *place, 0).is_array();
  if (prompts.is_chat && options.chat_template.empty() && !tokenizer.has_chat_template())
    fail(
        "{}: the tokenizer of the model has no chat template, which chats are written with: give one with "
        "--chat_template_path FILE.jinja",
        data.name());
  const TemplateColumns columns(data);
  prompts.rows = map_rows(data.size(), [&](int64_t i) {
    try {
      return read_prompt(data, i, columns, tokenizer, options, prompts.is_chat);
    } catch (const Error& error) {  // of a template, which does not know the row
      if (std::string_view(error.what()).starts_with(data.where(i))) throw;
      fail("{}: {}", data.where(i), error.what());
    }
  });
  return prompts;
}

PromptOrder::PromptOrder(int64_t prompts, int64_t at_once, bool shuffles, int64_t seed, bool of_trainer)
    : prompts_(prompts), at_once_(at_once), shuffles_(shuffles), of_trainer_(of_trainer), seed_(seed) {
  require(prompts_ >= at_once_,
          "training data: expected at least the {} prompts that completions are written for at once, found {}: lower "
          "--per_device_train_batch_size or raise --num_generations",
          at_once_, prompts_);
}

std::vector<int64_t> PromptOrder::prompts_of(int64_t epoch, int64_t number) const {
  if (epoch_ != epoch) {
    order_.clear();
    // One generator goes on from epoch to epoch.
    Mt19937 generator(static_cast<uint64_t>(seed_));
    if (shuffles_ && of_trainer_) order_ = random_order(prompts_, seed_, epoch);
    else
      for (int64_t e = 0; shuffles_ && e <= epoch; ++e) order_ = generator.randperm(prompts_);
    for (int64_t i = 0; !shuffles_ && i < prompts_; ++i) order_.push_back(i);
    epoch_ = epoch;
  }
  const auto begin = order_.begin() + number * at_once_;
  return {begin, begin + at_once_};
}

}  // namespace transom
