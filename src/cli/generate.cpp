// SPDX-License-Identifier: Apache-2.0
// transom generate: what a language model goes on with, for lines of token ids, features or texts, or one prompt.
#include <cstdio>
#include <list>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "cli/command.h"
#include "generation/generation_fields.h"
#include "generation/prompts.h"

namespace transom {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> inputs, outputs;
  std::vector<std::string> prompts;
  std::list<std::pair<std::string, std::optional<std::string>>> fields;  // a list: options point into it
  ModelOptions source;
  DeviceOptions device;
  PrecisionOptions numbers;
};

GenerationConfig config_of(const Options& options, const std::string& directory) {
  GenerationConfig config = GenerationConfig::from_pretrained(directory);
  for (const auto& [name, word] : options.fields) {
    if (!word) continue;
    try {
      set_generation_field(config, name, *word == "-" ? "true" : *word);
    } catch (const Error& error) {
      fail(ErrorKind::kUsage, "--{}", error.what());
    }
  }
  return config;
}

// {"sequences": [[...]]} a line; lines of texts also get the texts.
void generate_lines(const Options& options, const Model& model, const GenerationConfig& config,
                    const std::string& directory) {
  const auto file = MappedFile::open(*options.inputs);
  AtomicFile out(*options.outputs);
  std::optional<Tokenizer> tokenizer;
  const auto the_tokenizer = [&]() -> const Tokenizer& {
    if (!tokenizer) tokenizer = Tokenizer::from_pretrained(directory);
    return *tokenizer;
  };
  std::string_view rest = file->text();
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = fmt::format("{}: line {}", *options.inputs, number);
    const Json json = parse_json(line, where);
    const bool texts = json.is_object() && json.contains("text");
    const NamedTensors inputs =
        texts ? prompts_of_texts(json, model, the_tokenizer(), where) : prompts_of_tensors(json, where);
    GenerationOutput output;
    try {
      output = generate(model, inputs, config,
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
    out.write(dump_json(result) + "\n");
  }
  out.commit();
}

// The prompt and what follows, as it is written where there is one text, else at the end.
void generate_prompt(const Model& model, const GenerationConfig& config, const std::string& directory,
                     const std::string& prompt) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(directory);
  const NamedTensors inputs = prompts_of_texts(Json{{"text", prompt}}, model, tokenizer, "the prompt");
  const auto print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  if (config.num_beams == 1 && config.num_return_sequences == 1) {
    TextStreamer streamer(tokenizer, print, writes_anew(model));
    generate(model, inputs, config, {.streamer = &streamer, .tokenizer = &tokenizer});
    print("\n");
    return;
  }
  for (const TokenIds& row : generate(model, inputs, config, {.streamer = nullptr, .tokenizer = &tokenizer}).sequences)
    print(tokenizer.decode(row, true) + "\n");
}

int run(const Options& options) {
  options.device.apply();
  if (options.prompts.empty() == !options.inputs)
    fail(ErrorKind::kUsage, "expected either a prompt, or --inputs FILE with --outputs FILE");
  if (options.inputs && !options.outputs) fail(ErrorKind::kUsage, "--outputs is missing: where the sequences go");
  if (options.outputs && !options.inputs) fail(ErrorKind::kUsage, "--inputs is missing: JSON lines with input_ids");
  LoadOptions load;
  options.numbers.apply_to(load);
  const std::string directory = resolve_model(options.model, options.source.hub());
  const GenerationConfig config = config_of(options, directory);
  const auto model = Model::from_pretrained(directory, load);
  if (options.inputs) generate_lines(options, *model, config, directory);
  for (const std::string& prompt : options.prompts) generate_prompt(*model, config, directory, prompt);
  return 0;
}

}  // namespace

Command generate_command() {
  static Options o;
  Command command{.name = "generate",
                  .help = "Write on from prompts: Transformers' generate()",
                  .examples =
                      "  transom generate --model MODEL \"Once upon a time\" --max_new_tokens 40\n"
                      "  transom generate --model MODEL --inputs prompts.jsonl --outputs out.jsonl --num_beams 4\n"
                      "  transom generate --model MODEL --inputs prompts.jsonl --outputs out.jsonl --do_sample --seed "
                      "7 --top_p 0.9"};
  command.options = {
      {"prompt", &o.prompts, "texts to go on from, which are printed with what follows"},
      {"--model", &o.model, kModelHelp, true},
      {"--inputs", &o.inputs,
       "JSON lines {\"input_ids\": [[...]], \"attention_mask\": [[...]]}, {\"input_features\": ...} or {\"text\": "
       "[...]}"},
      {"--outputs", &o.outputs, "where the JSON lines {\"sequences\": [[...]]} go"}};
  o.fields.clear();
  for (const GenerationField& field : generation_fields()) {
    auto& [name, word] = o.fields.emplace_back(field.name, std::nullopt);
    command.options.push_back({.name = "--" + name,
                               .value = &word,
                               .help = std::string(field.help),
                               .value_optional = field.is_flag,
                               .hidden = field.help.empty()});
  }
  o.numbers.add_to(command);
  o.source.add_to(command);
  o.device.add_to(command);
  command.run = [] { return run(o); };
  return command;
}

}  // namespace transom
