// SPDX-License-Identifier: Apache-2.0
// transom generate: text from prompts, from a chat, or for lines of token ids, features or texts.
#include <cstdio>
#include <list>

#include "apps/cli/command.h"
#include "apps/cli/options/inputs.h"
#include "apps/cli/options/sharding_options.h"
#include "apps/cli/remote/remote_server.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/hub/resolve.h"
#include "models/loading/weights/missing_weights.h"
#include "transom/distributed.h"
#include "work/generation/generate_each.h"
#include "work/generation/generation_fields.h"
#include "work/generation/image_text/chat_parts.h"
#include "work/generation/image_text/image_text_processor.h"
#include "work/generation/prompts.h"
#include "work/pipelines/generation/assistant_model.h"
#include "work/pipelines/images/image_model.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

struct GenerateArguments {
  std::string model;
  std::optional<std::string> inputs, outputs, messages, chat_template, assistant_model;
  int64_t num_assistant_tokens = 5;
  bool json = false;
  std::vector<std::string> prompts, images;
  std::list<std::pair<std::string, std::optional<std::string>>> fields;  // a list: options point into it
  RemoteOptions remote;
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions precision;
  ShardingOptions sharding;
};

GenerationConfig generation_config_of(const GenerateArguments& options, const std::string& directory) {
  GenerationConfig config = GenerationConfig::from_pretrained(directory);
  for (const auto& [name, word] : options.fields) {
    if (!word) continue;
    try {
      set_generation_field(config, name, *word);
    } catch (const Error& error) {
      fail(ErrorKind::kUsage, "--{}", error.what());
    }
  }
  for (const auto& [name, word] : options.fields)
    if (const auto why = word ? why_without_effect(config, name) : ""; !why.empty() && process_rank() == 0)
      log(LogLevel::kWarning, fmt::format("--{} {}", name, why));
  return config;
}

// Of several prompts or lines each is drawn with a seed of its own, so that equal ones get different texts.
GenerationConfig config_of_number(const GenerationConfig& config, uint64_t number) {
  GenerationConfig own = config;
  own.seed += number;
  return own;
}

// {"sequences": [[...]]} a line; lines of texts also get the texts.
void generate_lines(const GenerateArguments& options, const Model& model, const GenerationConfig& config,
                    const std::string& directory) {
  const auto file = MappedFile::open(*options.inputs);
  std::optional<AtomicFile> out;  // one of several processes writes
  if (process_rank() == 0) out.emplace(*options.outputs);
  std::optional<Tokenizer> tokenizer;
  const auto the_tokenizer = [&]() -> const Tokenizer& {
    if (!tokenizer) tokenizer = Tokenizer::from_pretrained(directory);
    return *tokenizer;
  };
  uint64_t done = 0;
  for_each_line(file->text(), [&](std::string_view line, size_t number) {
    if (line.find_first_not_of(" \t") == line.npos) return;
    const GenerationConfig own = config_of_number(config, done++);
    const std::string where = fmt::format("{}: line {}", *options.inputs, number);
    const Json json = parse_json(line, where);
    const bool texts = json.is_object() && json.contains("text");
    const NamedTensors inputs =
        texts ? prompts_of_texts(json, model, the_tokenizer(), where) : prompts_of_tensors(json, where);
    GenerationOutput output;
    try {
      output = generate(model, inputs, own,
                        {.streamer = nullptr, .tokenizer = config.stop_strings.empty() ? nullptr : &the_tokenizer()});
    } catch (const Error& error) {
      fail(error.kind(), "{}: {}", where, error.what());
    }
    Json result{{"sequences", output.sequences}};
    if (texts) {
      Json written = Json::array();
      for (const TokenIds& row : output.sequences) written.push_back(the_tokenizer().decode(row, true));
      result["generated_text"] = std::move(written);
    }
    if (out) out->write(dump_json(result) + "\n");
  });
  if (out) out->commit();
}

bool is_message(const Json& json) {
  return json.is_object() && json.contains("role") && json["role"].is_string() && json.contains("content");
}

// A chat: a list of {"role", "content"}, or an object with it.
Json chat_of(Json json, const std::string& where) {
  if (json.is_object() && json.contains("messages")) json = Json(json["messages"]);
  if (!json.is_array() || json.empty()) fail("{}: expected a list of messages {{\"role\", \"content\"}}", where);
  for (const Json& message : json)
    if (!is_message(message))
      fail("{}: expected messages {{\"role\", \"content\"}}, found {}", where, quoted(dump_json(message)));
  return json;
}

// JSON lines: a chat on each, or of one chat a message on each.
std::vector<Json> chats_of_lines(std::string_view text, const std::string& where) {
  std::vector<Json> chats;
  Json messages = Json::array();
  for_each_line(text, [&](std::string_view line, size_t number) {
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    const std::string at = fmt::format("{}: line {}", where, number);
    Json json = parse_json(line, at);
    if (is_message(json)) messages.push_back(std::move(json));
    else chats.push_back(chat_of(std::move(json), at));
    if (!messages.empty() && !chats.empty()) fail("{}: expected chats or messages on all lines, found both", at);
  });
  if (!messages.empty()) chats.push_back(std::move(messages));
  if (chats.empty()) fail("{}: is empty: expected a chat", where);
  return chats;
}

// The chats of --messages: JSON, a file with it, JSON lines of several chats, or the text of one user.
std::vector<Json> chats_of(const std::string& word) {
  if (word.starts_with('[') || word.starts_with('{')) return {chat_of(parse_json(word, "--messages"), "--messages")};
  const std::string ending = fs::path(word).extension().string();
  const bool names_file = file_exists(word) || ending == ".json" || ending == ".jsonl" || ending == ".txt";
  if (word != "-" && !names_file) return {Json::array({{{"role", "user"}, {"content", word}}})};
  const std::string text = word == "-" ? read_standard_input() : std::string(MappedFile::open(word)->text());
  const size_t first = text.find('\n');
  const bool lines = first != text.npos && !Json::accept(text) && Json::accept(std::string_view(text).substr(0, first));
  if (lines) return chats_of_lines(text, word);
  return {chat_of(parse_json(text, word), word)};
}

struct Prompt {
  std::string text;
  Json messages = nullptr;  // of a chat, whose text is what the template makes of them
  ModelInputs inputs = {};  // the text, with its pictures
};

// The text as tokens, in which pictures have their places.
Prompt encoded_prompt(Prompt prompt, const std::vector<PictureSource>& images, bool adds_special_tokens,
                      const Tokenizer& tokenizer, const ImageTextProcessor* processor) {
  const auto encode = [&](const std::string& text) {
    return tokenizer.encode(text, std::nullopt, {.add_special_tokens = adds_special_tokens}).ids;
  };
  std::vector<ImageProcessor::Pixels> pixels;
  const auto together = static_cast<int64_t>(prompt.messages.is_null() ? 1 : images.size());
  for (const PictureSource& image : images) pixels.push_back(processor->prepared(image_of(image), together));
  prompt.inputs = processor ? (*processor)(prompt.text, pixels, encode) : ModelInputs(encode(prompt.text));
  return prompt;
}

// The message with pictures before what it says.
Json with_pictures(Json message, const std::vector<std::string>& images) {
  Json content = Json::array();
  for (const std::string& image : images) content.push_back({{"type", "image"}, {"path", image}});
  const Json said = message["content"];
  for (const Json& part : said.is_array() ? said : Json::array({{{"type", "text"}, {"text", said}}}))
    content.push_back(part);
  message["content"] = std::move(content);
  return message;
}

// A chat with the pictures of its parts; those of --image stand in its first message.
Prompt prompt_of_chat(const GenerateArguments& options, Json messages, const Tokenizer& tokenizer,
                      const ImageTextProcessor* processor) {
  const bool continues = messages.back()["role"] == "assistant";
  const ChatOptions form{.add_generation_prompt = !continues,
                         .continue_final_message = continues,
                         .chat_template = options.chat_template.value_or("")};
  if (!processor)
    return encoded_prompt(
        {tokenizer.apply_chat_template(dump_json(fitting_texts(messages, tokenizer, form)), form), messages}, {}, false,
        tokenizer, nullptr);
  if (!options.images.empty()) messages.front() = with_pictures(messages.front(), options.images);
  const auto chat = std::get<ChatInput>(input_of_json(need_task("image-text-to-text"), messages, {}));
  const auto [text, adds_special] =
      written_chat(parse_json(chat.messages, "a chat"), tokenizer, form, processor->image_token());
  return encoded_prompt({text, messages}, chat.images, adds_special, tokenizer, processor);
}

std::vector<Prompt> prompts_of_options(const GenerateArguments& options, const Tokenizer& tokenizer,
                                       const ImageTextProcessor* processor) {
  if (!options.images.empty() && !processor)
    fail(ErrorKind::kUsage, "--image: {} reads no pictures, or has no preprocessor_config.json", options.model);
  const std::vector<PictureSource> images(options.images.begin(), options.images.end());
  std::vector<Prompt> prompts;
  for (const std::string& prompt : options.prompts)
    prompts.push_back(
        encoded_prompt({prompt == "-" ? read_standard_input() : prompt}, images, true, tokenizer, processor));
  if (!options.messages) return prompts;
  for (const Json& messages : chats_of(*options.messages))
    prompts.push_back(prompt_of_chat(options, messages, tokenizer, processor));
  return prompts;
}

void print_text(std::string_view text) {
  if (process_rank() > 0) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// [{"generated_text": ...}], as the pipeline text-generation returns it: of a chat the messages with the answer.
Json result_of(const Prompt& prompt, const Tokenizer& tokenizer, const std::vector<TokenIds>& rows, size_t length) {
  Json results = Json::array();
  for (const TokenIds& row : rows) {
    const auto begin = row.begin() + static_cast<ptrdiff_t>(std::min(length, row.size()));
    const std::string answer = tokenizer.decode(TokenIds(begin, row.end()), true);
    Json text = length > 0 && prompt.messages.is_null() ? Json(prompt.text + answer) : Json(answer);
    if (!prompt.messages.is_null()) {
      text = prompt.messages;
      if (text.back()["role"] != "assistant") text.push_back({{"role", "assistant"}, {"content", answer}});
      else if (text.back()["content"].is_string())
        text.back()["content"] = text.back()["content"].get<std::string>() + answer;
    }
    results.push_back({{"generated_text", std::move(text)}});
  }
  return results;
}

// One prompt with an assistant model: what generate_prompt prints and returns.
Json generate_assisted_prompt(const GenerateArguments& options, const Model& model, const Model& assistant,
                              const GenerationConfig& config, const Tokenizer& tokenizer, const Prompt& prompt) {
  TextStreamer streamer(tokenizer, print_text, !prompt.messages.is_null());
  const std::vector<TokenIds> texts = generate_each(model, {prompt.inputs}, config,
                                                    {.tokenizer = &tokenizer,
                                                     .streamer = options.json ? nullptr : &streamer,
                                                     .assistant = &assistant,
                                                     .num_assistant_tokens = options.num_assistant_tokens});
  if (options.json) return result_of(prompt, tokenizer, texts, prompt.inputs.tokens.size());
  print_text("\n");
  return nullptr;
}

// One prompt and its text, printed as it is generated where there is one text, else at the end. Of a chat and of what
// an encoder reads the answer alone is printed.
Json generate_prompt(const GenerateArguments& options, const Model& model, const GenerationConfig& config,
                     const Tokenizer& tokenizer, const Prompt& prompt) {
  const bool chat = !prompt.messages.is_null(), answer_alone = chat || writes_anew(model);
  const TokenIds& tokens = prompt.inputs.tokens;
  const size_t length = writes_anew(model) ? 0 : tokens.size();
  const auto write = [&](Streamer* streamer) {
    const GenerationOptions with{.streamer = streamer, .tokenizer = &tokenizer};
    if (!prompt.inputs.attached.empty()) return generate(model, prompt.inputs, config, with).sequences;
    return generate(model, prompts_of(std::span(&tokens, 1), model, tokenizer), config, with).sequences;
  };
  if (!options.json && config.num_beams == 1 && config.num_return_sequences == 1) {
    TextStreamer streamer(tokenizer, print_text, answer_alone);
    const std::vector<TokenIds> rows = write(&streamer);
    print_text("\n");
    const bool ended_at_once =
        rows.at(0).size() <= length + 1 && config.max_new_tokens.value_or(2) > 1 && config.stop_strings.empty();
    if (!chat && ended_at_once && tokenizer.has_chat_template())
      log(LogLevel::kWarning, "the model ended the text at once; it has a chat template: --messages TEXT asks it");
    return nullptr;
  }
  const std::vector<TokenIds> rows = write(nullptr);
  if (options.json) return result_of(prompt, tokenizer, rows, length);
  for (const TokenIds& row : rows) {
    const size_t begin = chat ? std::min(length, row.size()) : 0;
    print_text(tokenizer.decode(TokenIds(row.begin() + static_cast<ptrdiff_t>(begin), row.end()), true) + "\n");
  }
  return nullptr;
}

void generate_prompts(const GenerateArguments& options, const Model& model, const GenerationConfig& config,
                      const std::string& directory, const LoadOptions& load) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(directory);
  const auto processor = ImageTextProcessor::of(directory_of_model(directory), model.config(), tokenizer);
  const std::vector<Prompt> prompts = prompts_of_options(options, tokenizer, processor ? &*processor : nullptr);
  std::unique_ptr<Model> assistant;
  if (options.assistant_model)
    assistant = load_assistant(resolve_model(*options.assistant_model, options.source.hub()), load, tokenizer);
  Json results = Json::array();
  uint64_t done = 0;
  for (const Prompt& prompt : prompts) {
    const GenerationConfig own = config_of_number(config, done++);
    if (!options.json && prompts.size() > 1 && writes_anew(model))
      print_text(prompt.text + "\n");  // it is no part of the text
    Json result = assistant ? generate_assisted_prompt(options, model, *assistant, own, tokenizer, prompt)
                            : generate_prompt(options, model, own, tokenizer, prompt);
    if (prompts.size() == 1) results = std::move(result);
    else
      results.push_back(
          {{"input", prompt.messages.is_null() ? Json(prompt.text) : prompt.messages}, {"result", std::move(result)}});
  }
  if (options.json) print_text(dump_json(results) + "\n");
}

// On a server: texts alone, as its interface has no lines of tensors.
int run_on_server(const GenerateArguments& options) {
  if (options.inputs) fail(ErrorKind::kUsage, "--inputs: not with --server, which takes prompts and --messages");
  if (options.assistant_model)
    fail(ErrorKind::kUsage, "--assistant_model: not with --server; the server has its own (transom serve --help)");
  if (options.chat_template) fail(ErrorKind::kUsage, "--chat_template: not with --server, which has its own");
  if (!options.images.empty()) fail(ErrorKind::kUsage, "--image: not with --server; its chats take pictures by HTTP");
  options.remote.refuse_local(options.source, options.device, options.precision);
  if (options.sharding.any()) fail(ErrorKind::kUsage, "--tp_size, --pp_size, --ep_size: not with --server");
  GivenFields fields;
  for (const auto& [name, word] : options.fields)
    if (word) fields.emplace_back(name, *word);
  std::vector<std::string> prompts;
  for (const std::string& prompt : options.prompts) prompts.push_back(prompt == "-" ? read_standard_input() : prompt);
  const std::vector<Json> chats = options.messages ? chats_of(*options.messages) : std::vector<Json>();
  if (chats.size() > 1) fail(ErrorKind::kUsage, "--messages: with --server one chat, found {}", chats.size());
  const std::string messages = chats.empty() ? "" : dump_json(chats[0]);
  remote_generate(options.remote, options.model, prompts, messages, fields, options.json);
  return 0;
}

// Processes that share a model compute the same passes, or they wait for each other for ever.
void expect_equal_work(const GenerateArguments& options) {
  if (!options.sharding.any()) return;
  const bool reads = std::count(options.prompts.begin(), options.prompts.end(), "-") > 0 || options.messages == "-";
  if (reads)
    fail(ErrorKind::kUsage,
         "-: a launcher gives standard input to one process; use --inputs FILE with --tp_size or --pp_size");
}

int run_generate(const GenerateArguments& options) {
  options.remote.expect_model(options.model);
  const bool has_prompt = !options.prompts.empty() || options.messages;
  if (has_prompt == options.inputs.has_value())
    fail(ErrorKind::kUsage,
         "expected a prompt (- reads it from standard input), --messages, or --inputs FILE with --outputs FILE");
  if (options.inputs && !options.outputs) fail(ErrorKind::kUsage, "--outputs is missing: where the sequences go");
  if (options.outputs && !options.inputs) fail(ErrorKind::kUsage, "--inputs is missing: JSON lines with input_ids");
  if (options.assistant_model && (options.inputs || options.sharding.any()))
    fail(ErrorKind::kUsage, "--assistant_model: for prompts and --messages, in one process");
  if (options.num_assistant_tokens < 1)
    fail(ErrorKind::kUsage, "--num_assistant_tokens: expected at least 1, found {}", options.num_assistant_tokens);
  if (options.remote.server) return run_on_server(options);
  LoadOptions load;
  options.precision.apply_to(load);
  if (options.chat_template && !options.messages)
    fail(ErrorKind::kUsage, "--chat_template: there is no chat without --messages");
  options.device.apply();
  options.sharding.join();
  const std::string directory = resolve_model(options.model, options.source.hub());
  const GenerationConfig config = generation_config_of(options, directory);
  expect_equal_work(options);
  const auto model = load_trained(directory, load);
  {
    const SpreadModel spread(options.sharding, *model);
    if (options.inputs) generate_lines(options, *model, config, directory);
    else generate_prompts(options, *model, config, directory, load);
  }
  if (options.sharding.any()) leave_process_group();
  return 0;
}

}  // namespace

Command generate_command() {
  static GenerateArguments o;
  Command command{.name = "generate",
                  .help = "Generate text from prompts: Transformers' generate()",
                  .examples =
                      "  transom generate --model MODEL \"Once upon a time\" --max_new_tokens 40\n"
                      "  transom generate --model MODEL - < prompt.txt\n"
                      "  transom generate --model MODEL --messages \"What is the capital of France?\"\n"
                      "  transom generate --model MODEL --image cat.png --messages \"What is it?\"\n"
                      "  transom generate --model MODEL --inputs prompts.jsonl --outputs out.jsonl --num_beams 4\n"
                      "  transom generate --model MODEL --inputs prompts.jsonl --outputs out.jsonl --do_sample --seed "
                      "7 --top_p 0.9"};
  command.options = {
      {"prompt", &o.prompts, "texts to continue; - is the whole of standard input"},
      {kModelFlag, &o.model, kModelHelp},
      {"--messages", &o.messages,
       "a chat, of which the model's chat template makes the prompt: the text of a user, a JSON list of {\"role\", "
       "\"content\"}, or a file with it or with a chat a line"},
      {"--image", &o.images,
       "pictures for a model that sees: of a chat before what its first message says, of a prompt where its text has "
       "<image>"},
      {"--chat_template", &o.chat_template, "Jinja template in place of the model's"},
      {"--assistant_model", &o.assistant_model,
       "smaller model of the same tokens, whose drafts the model verifies: the same text, sooner"},
      {"--num_assistant_tokens", &o.num_assistant_tokens, "tokens of a draft"},
      {"--json", &o.json, "print [{\"generated_text\": ...}]; of several prompts a list of {\"input\", \"result\"}"},
      {"--inputs", &o.inputs,
       "JSON lines {\"input_ids\": [[...]], \"attention_mask\": [[...]]}, {\"inputs_embeds\": ...}, "
       "{\"input_features\": ...} or {\"text\": [...]}; beside ids {\"pixel_values\": ...}"},
      {"--outputs", &o.outputs, "where the JSON lines {\"sequences\": [[...]]} go"}};
  o.fields.clear();
  for (const GenerationField& field : generation_fields()) {
    if (field.name == "num_assistant_tokens") continue;  // above
    auto& [name, word] = o.fields.emplace_back(field.name, std::nullopt);
    command.options.push_back(
        {.name = "--" + name,
         .value = &word,
         .help = std::string(field.help),
         .value_optional = field.is_flag,
         .hidden = field.help.empty(),
         .group = kGenerationGroup,
         .words = field.is_flag ? std::vector<std::string>{"true", "false", "True", "False", "none", "None", "null"}
                                : std::vector<std::string>{}});
  }
  o.remote.add_to(command);
  o.source.add_to(command);
  o.device.add_to(command);
  o.precision.add_to(command);
  o.sharding.add_to(command);
  command.run = [] { return run_generate(o); };
  return command;
}

}  // namespace transom
