// SPDX-License-Identifier: Apache-2.0
// image-text-to-text: a model that sees pictures among its tokens goes on with a text, or answers in a chat.
#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "models/records.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/pipelines/generation/generation_model.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

// A prompt, and the whole that it makes with what is written behind it.
struct PicturePrompt {
  std::string text;
  bool adds_special_tokens = true;
  std::vector<ImageProcessor::Pixels> images;
  Json messages = nullptr;  // of a chat
  bool goes_on = false;     // what is written belongs to the last message

  WrittenText whole(const std::string& written) const {
    if (messages.is_null()) return text + written;
    Json chat = messages;
    if (!goes_on) {
      chat.push_back({{"role", "assistant"}, {"content", written}});
    } else {
      Json& content = chat.back()["content"];
      Json& last = content.is_array() && !content.empty() ? content.back()["text"] : content;
      if (!last.is_string()) fail("a chat: the last message does not end with a text that could go on");
      last = last.get<std::string>() + written;
    }
    return ChatMessages{dump_json(chat)};
  }
};

class ImageTextToText : public Pipeline {
 public:
  // Of models without places for pictures among their tokens the second says how these are prepared.
  ImageTextToText(GenerationModel model, std::optional<ImageTextProcessor> processor,
                  std::optional<ImageProcessor> images)
      : model_(std::move(model)), processor_(std::move(processor)), images_(std::move(images)) {}

  Model* model() const override { return model_.model.get(); }

  // For each text or chat one text, or chat with the answer, for each returned sequence.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) results.emplace_back(written(input, options));
    return results;
  }

 private:
  std::vector<WrittenText> written(const TaskInput& input, const TaskOptions& options) const {
    // As Transformers' pipeline has it.
    const GenerationConfig config = model_.config_for(options, Json{{"max_new_tokens", 256}});
    const PicturePrompt prompt = prompt_of(input, options);
    if (!processor_) return written_about_one(prompt, config, options);
    const ModelInputs inputs = (*processor_)(prompt.text, prompt.images, [&](const std::string& text) {
      return model_.tokenizer.encode(text, std::nullopt, {.add_special_tokens = prompt.adds_special_tokens}).ids;
    });
    const GenerationOutput output =
        generate(*model_.model, inputs, config, {.streamer = nullptr, .tokenizer = &model_.tokenizer});
    return results_of(prompt, inputs.tokens, output, options);
  }

  // A model whose encoder reads the picture goes on with the text.
  std::vector<WrittenText> written_about_one(const PicturePrompt& prompt, const GenerationConfig& config,
                                             const TaskOptions& options) const {
    if (prompt.images.size() != 1) fail("expected one picture beside the text, found {}", prompt.images.size());
    const TokenIds ids = model_.tokenizer.encode(prompt.text).ids;
    const NamedTensors inputs{{"pixel_values", pixel_values({prompt.images.data(), 1})},
                              {"input_ids", Tensor::from(ids, {1, static_cast<int64_t>(ids.size())})}};
    return results_of(prompt, ids,
                      generate(*model_.model, inputs, config, {.streamer = nullptr, .tokenizer = &model_.tokenizer}),
                      options);
  }

  std::vector<WrittenText> results_of(const PicturePrompt& prompt, const TokenIds& before,
                                      const GenerationOutput& output, const TaskOptions& options) const {
    std::vector<WrittenText> results;
    for (const TokenIds& row : output.sequences) results.push_back(result_of(prompt, before, row, options));
    return results;
  }

  PicturePrompt prompt_of(const TaskInput& input, const TaskOptions& options) const {
    const ChatInput* chat = std::get_if<ChatInput>(&input);
    PicturePrompt prompt;
    if (!chat) prompt.text = text_input(input).text;
    else if (processor_) prompt = prompt_of_chat(*chat, options);
    else prompt.text = text_of_lone_message(*chat);
    if (!chat)
      refuse_without_effect(options, {"continue_final_message", "chat_template", "tools", "documents"},
                            "on a text: it is of chats, lists of messages");
    const std::vector<PictureSource>& sources = chat ? chat->images : text_input(input).images;
    const auto together = static_cast<int64_t>(chat ? sources.size() : 1);
    for (const PictureSource& source : sources)
      prompt.images.push_back(processor_ ? processor_->prepared(image_of(source), together)
                                         : (*images_)(image_of(source)));
    return prompt;
  }

  // What a message says beside its picture, for a model that has no form for chats.
  std::string text_of_lone_message(const ChatInput& chat) const {
    const Json messages = parse_json(chat.messages, "a chat");
    if (!messages.is_array() || messages.size() != 1 || !messages[0].contains("content"))
      fail(ErrorKind::kUnsupported, "{} goes on with a text about a picture: expected one message, found {}",
           model_.model->architecture(), quoted(chat.messages, 80));
    const Json& content = messages[0]["content"];
    if (content.is_string()) return content.get<std::string>();
    std::string text;
    for (const Json& part : content)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        text += part["text"].get<std::string>();
    return text;
  }

  PicturePrompt prompt_of_chat(const ChatInput& chat, const TaskOptions& options) const {
    const Json messages = parse_json(chat.messages, "a chat");
    if (!messages.is_array() || messages.empty() || !messages.back().is_object() || !messages.back().contains("role"))
      fail("a chat: expected messages {{\"role\", \"content\"}}, found {}", quoted(dump_json(messages), 80));
    const bool goes_on = flag_or_default(options, "continue_final_message", messages.back()["role"] == "assistant");
    const auto json = [&](const char* name) {
      return is_given(options, name) ? dump_json(json_option(options, name)) : std::string();
    };
    const ChatOptions form{.add_generation_prompt = !goes_on,
                           .continue_final_message = goes_on,
                           .chat_template = text_option(options, "chat_template", ""),
                           .tools = json("tools"),
                           .documents = json("documents")};
    const auto [text, adds_special] = written_chat(messages, model_.tokenizer, form, processor_->image_token());
    return {.text = text, .adds_special_tokens = adds_special, .messages = messages, .goes_on = goes_on};
  }

  // What is new, as the pipeline of Transformers finds it: the text of all tokens without that of the prompt, which may
  // begin one or two characters later.
  WrittenText result_of(const PicturePrompt& prompt, const TokenIds& before, const TokenIds& row,
                        const TaskOptions& options) const {
    if (flag_or_default(options, "return_tensors", false)) return row;
    const auto decoded = [&](const TokenIds& ids) {
      std::optional<bool> clean;
      if (is_given(options, "clean_up_tokenization_spaces"))
        clean = flag_option(options, "clean_up_tokenization_spaces", false);
      return model_.tokenizer.decode(ids, flag_or_default(options, "skip_special_tokens", true), clean);
    };
    std::string text = decoded(row);
    const std::string beginning = decoded(before);
    if (const size_t at = text.find(beginning); at <= 2) text = text.substr(at + beginning.size());
    if (!flag_or_default(options, "return_full_text", true)) return text;
    return prompt.whole(text);
  }

  GenerationModel model_;
  std::optional<ImageTextProcessor> processor_;
  std::optional<ImageProcessor> images_;
};

TaskParameters image_text_to_text_parameters() {
  return generation_parameters({
      {"return_full_text", TaskParameter::Type::kFlag, "the result begins with the prompt", "true"},
      {"return_tensors", TaskParameter::Type::kFlag, "return token ids", "false"},
      {"clean_up_tokenization_spaces", TaskParameter::Type::kFlag, "remove spaces before punctuation"},
      {"skip_special_tokens", TaskParameter::Type::kFlag, "leave special tokens out of the text", "true"},
      {"continue_final_message", TaskParameter::Type::kFlag,
       "chats only: the last message is continued (default: if it is the assistant's)"},
      {"chat_template", TaskParameter::Type::kText, "chats only: Jinja template in place of the checkpoint's"},
      {"tools", TaskParameter::Type::kJson, "chats only: list of the functions that the model may call"},
      {"documents", TaskParameter::Type::kJson, "chats only: list of texts that the model may use"},
  });
}

std::unique_ptr<Pipeline> load_image_text_to_text(const std::string& directory, const LoadOptions& options,
                                                  const std::string& /*task*/) {
  GenerationModel model = GenerationModel::load(directory, options);
  const fs::path folder = directory_of_model(directory);
  std::optional<ImageTextProcessor> processor;
  std::optional<ImageProcessor> images;
  if (is_encoder_decoder(head_of(*model.model))) images = ImageProcessor::from_pretrained(folder);
  else processor.emplace(folder, model.model->config(), model.tokenizer);
  return std::make_unique<ImageTextToText>(std::move(model), std::move(processor), std::move(images));
}

constexpr TaskRecord kImageTextToText{.name = "image-text-to-text",
                                      .example = "--image cat.png --text \"What is it?\" --max_new_tokens 60",
                                      .takes_chats = true,
                                      .takes_images = true,
                                      .result = ResultKind::kTexts,
                                      .json = {.tells_input = true},
                                      .parameters = image_text_to_text_parameters,
                                      .load = load_image_text_to_text};
const RegisterTask kRegisterImageTextToText(kImageTextToText);

}  // namespace
}  // namespace transom
