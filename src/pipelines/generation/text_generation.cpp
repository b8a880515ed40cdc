// SPDX-License-Identifier: Apache-2.0
// text-generation: a decoder-only model goes on with a text, or answers in a chat.
#include <functional>

#include "base/error.h"
#include "base/json/json.h"
#include "generation/generate_each.h"
#include "generation/prompts.h"
#include "io/config.h"
#include "pipelines/generation/generation_model.h"

namespace transom {
namespace {

// As Transformers' pipeline has it.
const Json& text_generation_defaults() {
  static const Json values{{"max_new_tokens", 256}, {"do_sample", true}, {"temperature", 0.7}};
  return values;
}

bool is_message(const Json& json) { return json.is_object() && json.contains("role") && json.contains("content"); }

class TextGeneration : public Pipeline {
 public:
  explicit TextGeneration(GenerationModel model) : model_(std::move(model)) {
    const Json& config = json_of(model_.model->config());
    if (const auto prefix = config.find("prefix"); prefix != config.end() && prefix->is_string())
      prefix_ = prefix->get<std::string>();
  }

  TaskParameters parameters() const override { return text_generation_parameters(); }
  Model* model() const override { return model_.model.get(); }
  bool is_one_input(const Json& list) const override { return !list.empty() && is_message(list[0]); }

  // A text, or a chat as a list of {"role", "content"}; [{"generated_text"}], one for each returned sequence.
  Json run(const Json& input, const Json& parameters) const override {
    Prompt prompt = prompt_of(input, parameters);
    const GenerationOutput output =
        generate(*model_.model, prompts_of(std::span(&prompt.ids, 1), *model_.model, model_.tokenizer), prompt.config,
                 {.streamer = nullptr, .tokenizer = &model_.tokenizer});
    return results_of(prompt, output.sequences, parameters);
  }

  // With `batch_size` that many texts are computed at once, each with the tokens that it has alone.
  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const int64_t together = batch_size_of(parameters);
    const GenerationConfig config = model_.config_for(parameters, text_generation_defaults());
    if (together == 1 || inputs.size() < 2 || config.num_beams != 1 || config.num_return_sequences != 1)
      return Pipeline::run_all(inputs, parameters);
    std::vector<Prompt> prompts;
    std::vector<ModelInputs> before;
    for (const Json& input : inputs) {
      prompts.push_back(prompt_of(input, parameters));
      before.emplace_back(prompts.back().ids);
    }
    const std::vector<TokenIds> texts =
        generate_each(*model_.model, before, config, {.tokenizer = &model_.tokenizer, .together = together});
    std::vector<Json> results;
    for (size_t i = 0; i < texts.size(); ++i) results.push_back(results_of(prompts[i], {texts[i]}, parameters));
    return results;
  }

 private:
  static bool int_flag(const Json& parameters, const char* name, bool otherwise) {
    const auto found = parameters.find(name);
    return found == parameters.end() || found->is_null() ? otherwise : bool_parameter(parameters, name, otherwise);
  }

  struct Prompt {
    TokenIds ids;
    GenerationConfig config;
    std::function<Json(const std::string&)> whole;  // of what was written behind it
  };

  Prompt prompt_of(const Json& input, const Json& parameters) const {
    if (!int_flag(parameters, "return_text", true) && !int_flag(parameters, "return_tensors", false))
      fail(ErrorKind::kUsage, "return_text: false has no effect without return_tensors true");
    if (input.is_array()) {
      refuse_without_effect(parameters, {"prefix"}, "on a chat, which the chat template writes");
      return prompt_of_chat(input, parameters);
    }
    refuse_without_effect(parameters, {"continue_final_message", "chat_template", "tools", "documents"},
                          "on a text: it is of chats, lists of messages");
    return encoded(string_parameter(parameters, "prefix", prefix_) + text_input(input), parameters,
                   int_flag(parameters, "add_special_tokens", true),
                   [input](const std::string& written) { return Json(text_input(input) + written); });
  }

  // The messages as the chat template writes them, and behind them the answer; or the last message, if it is the
  // assistant's, with what follows.
  Prompt prompt_of_chat(const Json& messages, const Json& parameters) const {
    for (const Json& message : messages)
      if (!is_message(message) || !message["role"].is_string())
        fail("a chat: expected messages {{\"role\", \"content\"}}, found {}", quoted(dump_json(message)));
    if (messages.empty()) fail("a chat: expected at least one message");
    const bool goes_on = int_flag(parameters, "continue_final_message", messages.back()["role"] == "assistant");
    const auto json = [&](const char* name) {
      const auto found = parameters.find(name);
      return found == parameters.end() || found->is_null() ? std::string() : dump_json(*found);
    };
    const std::string prompt = model_.tokenizer.apply_chat_template(
        dump_json(messages), {.add_generation_prompt = !goes_on,
                              .continue_final_message = goes_on,
                              .chat_template = string_parameter(parameters, "chat_template", ""),
                              .tools = json("tools"),
                              .documents = json("documents")});
    return encoded(prompt, parameters, false, [messages, goes_on](const std::string& written) {
      Json chat = messages;
      const Json& last = messages.back();
      if (!goes_on) chat.push_back({{"role", "assistant"}, {"content", written}});
      else if (last["content"].is_string()) chat.back()["content"] = last["content"].get<std::string>() + written;
      else fail("a chat: the last message's content is no text that could go on");
      return chat;
    });
  }

  Prompt encoded(const std::string& text, const Json& parameters, bool special_tokens,
                 std::function<Json(const std::string&)> whole) const {
    Prompt prompt{.ids = {}, .config = model_.config_for(parameters, text_generation_defaults()), .whole = whole};
    EncodeOptions encode;
    encode.add_special_tokens = special_tokens;
    if (int_flag(parameters, "truncation", false)) {
      encode.truncation = Truncation::kLongestFirst;
      encode.max_length = prompt.config.max_length;
    }
    prompt.ids = model_.tokenizer.encode(text, std::nullopt, encode).ids;
    make_room(prompt.ids, prompt.config, string_parameter(parameters, "handle_long_generation", ""));
    return prompt;
  }

  Json results_of(const Prompt& prompt, const std::vector<TokenIds>& rows, const Json& parameters) const {
    const bool tensors = int_flag(parameters, "return_tensors", false);
    const bool full = int_flag(parameters, "return_full_text", true);
    const auto clean = parameters.find("clean_up_tokenization_spaces");
    Json results = Json::array();
    for (const TokenIds& row : rows) {
      if (tensors) {
        results.push_back({{"generated_token_ids", row}});
        continue;
      }
      const std::string written = model_.tokenizer.decode(
          TokenIds(row.begin() + static_cast<ptrdiff_t>(std::min(prompt.ids.size(), row.size())), row.end()),
          int_flag(parameters, "skip_special_tokens", true),
          clean == parameters.end() || clean->is_null()
              ? std::nullopt
              : std::optional(bool_parameter(parameters, "clean_up_tokenization_spaces", false)));
      results.push_back({{"generated_text", full ? prompt.whole(written) : Json(written)}});
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

}  // namespace

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

std::unique_ptr<Pipeline> make_text_generation(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<TextGeneration>(GenerationModel::load(directory, options));
}

}  // namespace transom
