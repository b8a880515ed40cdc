// SPDX-License-Identifier: Apache-2.0
// text-generation: a decoder-only model goes on with a text, or answers in a chat.
#include <functional>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "work/generation/generate_each.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/generation/prompts.h"
#include "work/pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipeline has it.
const Json& text_generation_defaults() {
  static const Json values{{"max_new_tokens", 256}, {"do_sample", true}, {"temperature", 0.7}};
  return values;
}

class TextGeneration : public Pipeline {
 public:
  explicit TextGeneration(GenerationModel model) : model_(std::move(model)) {
    const Json& config = json_of(model_.model->config());
    if (const auto prefix = config.find("prefix"); prefix != config.end() && prefix->is_string())
      prefix_ = prefix->get<std::string>();
  }

  Model* model() const override { return model_.model.get(); }

  // For each text or chat one text, or chat with the answer, for each returned sequence. With `batch_size` that many
  // texts are computed at once, each with the tokens that it has alone.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    const int64_t together = batch_size_of(options);
    const GenerationConfig config = model_.config_for(options, text_generation_defaults());
    if (together == 1 || inputs.size() < 2 || config.num_beams != 1 || config.num_return_sequences != 1) {
      for (const TaskInput& input : inputs) results.emplace_back(written(input, options));
      return results;
    }
    std::vector<Prompt> prompts;
    std::vector<ModelInputs> before;
    for (const TaskInput& input : inputs) {
      prompts.push_back(prompt_of(input, options));
      before.emplace_back(prompts.back().ids);
    }
    const std::vector<TokenIds> texts =
        generate_each(*model_.model, before, config, {.tokenizer = &model_.tokenizer, .together = together});
    for (size_t i = 0; i < texts.size(); ++i) results.emplace_back(results_of(prompts[i], {texts[i]}, options));
    return results;
  }

 private:
  struct Prompt {
    TokenIds ids;
    GenerationConfig config;
    std::function<WrittenText(const std::string&)> whole;  // of what was written behind it
  };

  std::vector<WrittenText> written(const TaskInput& input, const TaskOptions& options) const {
    Prompt prompt = prompt_of(input, options);
    const GenerationOutput output =
        generate(*model_.model, prompts_of(std::span(&prompt.ids, 1), *model_.model, model_.tokenizer), prompt.config,
                 {.streamer = nullptr, .tokenizer = &model_.tokenizer});
    return results_of(prompt, output.sequences, options);
  }

  Prompt prompt_of(const TaskInput& input, const TaskOptions& options) const {
    if (!flag_or_default(options, "return_text", true) && !flag_or_default(options, "return_tensors", false))
      fail(ErrorKind::kUsage, "return_text: false has no effect without return_tensors true");
    if (const ChatInput* chat = std::get_if<ChatInput>(&input)) {
      refuse_without_effect(options, {"prefix"}, "on a chat, which the chat template writes");
      return prompt_of_chat(*chat, options);
    }
    refuse_without_effect(options, {"continue_final_message", "chat_template", "tools", "documents"},
                          "on a text: it is of chats, lists of messages");
    const std::string& text = text_input(input).text;
    return encoded(text_option(options, "prefix", prefix_) + text, options,
                   flag_or_default(options, "add_special_tokens", true),
                   [text](const std::string& written) { return text + written; });
  }

  // The messages as the chat template writes them, and behind them the answer; or the last message, if it is the
  // assistant's, with what follows.
  Prompt prompt_of_chat(const ChatInput& chat, const TaskOptions& options) const {
    const Json messages = parse_json(chat.messages, "a chat");
    if (!messages.is_array() || messages.empty()) fail("a chat: expected at least one message");
    for (const Json& message : messages)
      if (!message.is_object() || !message.contains("content") || !message.contains("role") ||
          !message["role"].is_string())
        fail("a chat: expected messages {{\"role\", \"content\"}}, found {}", quoted(dump_json(message)));
    const bool goes_on = flag_or_default(options, "continue_final_message", messages.back()["role"] == "assistant");
    const auto json = [&](const char* name) {
      return is_given(options, name) ? dump_json(json_option(options, name)) : std::string();
    };
    const ChatOptions form{.add_generation_prompt = !goes_on,
                           .continue_final_message = goes_on,
                           .chat_template = text_option(options, "chat_template", ""),
                           .tools = json("tools"),
                           .documents = json("documents")};
    WrittenChat prompt{.text = "", .adds_special_tokens = false};
    if (ImageTextProcessor::is_for(model_.model->config()))  // whose templates know contents as parts
      prompt = written_chat(messages, model_.tokenizer, form, "");
    else
      prompt.text =
          model_.tokenizer.apply_chat_template(dump_json(fitting_texts(messages, model_.tokenizer, form)), form);
    return encoded(prompt.text, options, prompt.adds_special_tokens, [messages, goes_on](const std::string& written) {
      Json whole = messages;
      const Json& last = messages.back();
      if (!goes_on) whole.push_back({{"role", "assistant"}, {"content", written}});
      else if (last["content"].is_string()) whole.back()["content"] = last["content"].get<std::string>() + written;
      else fail("a chat: the last message's content is no text that could go on");
      return ChatMessages{dump_json(whole)};
    });
  }

  Prompt encoded(const std::string& text, const TaskOptions& options, bool special_tokens,
                 std::function<WrittenText(const std::string&)> whole) const {
    Prompt prompt{.ids = {}, .config = model_.config_for(options, text_generation_defaults()), .whole = whole};
    EncodeOptions encode;
    encode.add_special_tokens = special_tokens;
    if (flag_or_default(options, "truncation", false)) {
      encode.truncation = Truncation::kLongestFirst;
      encode.max_length = prompt.config.max_length;
    }
    prompt.ids = model_.tokenizer.encode(text, std::nullopt, encode).ids;
    make_room(prompt.ids, prompt.config, text_option(options, "handle_long_generation", ""));
    return prompt;
  }

  std::vector<WrittenText> results_of(const Prompt& prompt, const std::vector<TokenIds>& rows,
                                      const TaskOptions& options) const {
    const bool tensors = flag_or_default(options, "return_tensors", false);
    const bool full = flag_or_default(options, "return_full_text", true);
    std::optional<bool> clean;
    if (is_given(options, "clean_up_tokenization_spaces"))
      clean = flag_option(options, "clean_up_tokenization_spaces", false);
    std::vector<WrittenText> results;
    for (const TokenIds& row : rows) {
      if (tensors) {
        results.emplace_back(row);
        continue;
      }
      const std::string written = model_.tokenizer.decode(
          TokenIds(row.begin() + static_cast<ptrdiff_t>(std::min(prompt.ids.size(), row.size())), row.end()),
          flag_or_default(options, "skip_special_tokens", true), clean);
      results.push_back(full ? prompt.whole(written) : WrittenText(written));
    }
    return results;
  }

  // "hole" forgets the beginning of a prompt that leaves no room for what is to be written.
  void make_room(TokenIds& ids, const GenerationConfig& config, const std::string& how) const {
    if (how.empty()) return;
    if (how != "hole") fail("parameter handle_long_generation: expected \"hole\", found {}", quoted(how));
    const int64_t limit = model_.tokenizer.model_max_length().value_or(0);
    const auto length = static_cast<int64_t>(ids.size());
    const int64_t coming = config.max_new_tokens.value_or(config.max_length.value_or(20) - length);
    if (limit == 0 || length + coming <= limit) return;
    if (limit <= coming)
      fail("handle_long_generation: {} new tokens leave no room for a prompt; the model takes {}", coming, limit);
    ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(limit - coming));
  }

  GenerationModel model_;
  std::string prefix_;
};

TaskParameters text_generation_parameters() {
  return generation_parameters({
      {"return_full_text", TaskParameter::Type::kFlag, "the result begins with the prompt", "true"},
      {"return_text", TaskParameter::Type::kFlag, "false: return token ids, with return_tensors", "true"},
      {"return_tensors", TaskParameter::Type::kFlag, "return token ids", "false"},
      {"prefix", TaskParameter::Type::kText, "text that goes before the prompt"},
      {"add_special_tokens", TaskParameter::Type::kFlag, "the tokenizer adds its special tokens to the prompt", "true"},
      {"truncation", TaskParameter::Type::kFlag, "cut prompts to max_length tokens", "false"},
      {"clean_up_tokenization_spaces", TaskParameter::Type::kFlag, "remove spaces before punctuation"},
      {"skip_special_tokens", TaskParameter::Type::kFlag, "leave special tokens out of the text", "true"},
      {"handle_long_generation",
       TaskParameter::Type::kText,
       "if the prompt leaves no room for new tokens: hole cuts its beginning",
       "",
       {"hole"}},
      {"continue_final_message", TaskParameter::Type::kFlag,
       "chats only: the last message is continued (default: if it is the assistant's)"},
      {"chat_template", TaskParameter::Type::kText, "chats only: Jinja template in place of the checkpoint's"},
      {"tools", TaskParameter::Type::kJson, "chats only: list of the functions that the model may call"},
      {"documents", TaskParameter::Type::kJson, "chats only: list of texts that the model may use"},
  });
}

std::unique_ptr<Pipeline> load_text_generation(const std::string& directory, const LoadOptions& options,
                                               const std::string& /*task*/) {
  return std::make_unique<TextGeneration>(GenerationModel::load(directory, options));
}

constexpr TaskRecord kTextGeneration{.name = "text-generation",
                                     .example = "\"Once upon a time\" --max_new_tokens 40",
                                     .takes_chats = true,
                                     .result = ResultKind::kTexts,
                                     .parameters = text_generation_parameters,
                                     .load = load_text_generation};
const RegisterTask kRegisterTextGeneration(kTextGeneration);

}  // namespace
}  // namespace transom
