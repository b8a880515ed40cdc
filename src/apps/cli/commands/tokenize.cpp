// SPDX-License-Identifier: Apache-2.0
// transom tokenize: texts, or JSON lines of texts and chats, as token ids.
#include <cstdio>
#include <functional>

#include "apps/cli/command.h"
#include "apps/cli/options/inputs.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/text/tokenize_lines.h"
#include "inputs/text/unicode/unicode.h"

namespace transom {
namespace {

struct TokenizeArguments {
  std::string tokenizer;
  std::vector<std::string> texts;
  std::optional<std::string> inputs, outputs;
  bool json = false;
  ModelOptions source;
};

// A line of `inputs` is JSON; in a .txt file and on standard input where it begins with a brace. Text in a .txt file
// may do so too: there it must also be a whole object with one of the keys that are asked for.
bool is_json_line(const std::string& inputs, std::string_view line) {
  const bool is_text_file = inputs.ends_with(".txt");
  if (inputs != "-" && !is_text_file) return true;
  const bool begins = line.substr(std::min(line.find_first_not_of(" \t"), line.size())).starts_with('{');
  if (!begins || !is_text_file) return begins;
  try {
    const Json object = parse_json(line, inputs);
    return object.contains("text") || object.contains("messages");
  } catch (const Error&) {
    return false;
  }
}

// Tokens with their ids below them, in columns.
void show(const Tokenizer& tokenizer, const std::string& text) {
  const Encoding encoding = tokenizer.encode(text);
  std::string tokens, ids;
  for (size_t i = 0; i < encoding.size(); ++i) {
    const std::string token = quoted(encoding.tokens[i], 1000), id = std::to_string(encoding.ids[i]);
    const std::string plain = token.substr(1, token.size() - 2);
    const size_t width = std::max(text::count_characters(plain), id.size());
    tokens += fmt::format("{:<{}}  ", plain, width);
    ids += fmt::format("{:<{}}  ", id, width);
  }
  while (tokens.ends_with(' ')) tokens.pop_back();
  while (ids.ends_with(' ')) ids.pop_back();
  std::puts((tokens + "\n" + ids).c_str());
}

int tokenize(const TokenizeArguments& options) {
  if (options.texts.empty() == !options.inputs)
    fail(ErrorKind::kUsage,
         "expected texts (- for standard input), or --inputs FILE with JSON lines or, as .txt, texts");
  if (options.outputs && !options.inputs) fail(ErrorKind::kUsage, "--inputs is missing: the file to tokenize");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(resolve_tokenizer(options.tokenizer, options.source.hub()));
  std::optional<AtomicFile> out;
  if (options.outputs) out.emplace(*options.outputs);
  const auto write = [&](const std::string& line) {
    if (out) out->write(line + "\n");
    else std::puts(line.c_str());
  };
  const auto json_of_text = [&](const std::string& text, const std::string& where) {
    return tokenize_line(tokenizer, dump_json(Json{{"text", text}}), where);
  };
  const auto take_text = [&](const std::string& text) {
    if (options.json) write(json_of_text(text, "the text"));
    else show(tokenizer, text);
  };
  for (const std::string& text : options.texts)
    if (text == "-") for_each_input_line(take_text);
    else take_text(text);
  if (options.inputs) {
    size_t number = 0;
    const auto take = [&](std::string_view line) {
      const std::string where = fmt::format("{}: line {}", *options.inputs, ++number);
      if (line.find_first_not_of(" \t") == line.npos) return;
      write(is_json_line(*options.inputs, line) ? tokenize_line(tokenizer, line, where)
                                                : json_of_text(std::string(line), where));
    };
    if (*options.inputs == "-") for_each_input_line(take);
    else for_each_line(MappedFile::open(*options.inputs)->text(), [&](std::string_view line, size_t) { take(line); });
  }
  if (out) out->commit();
  return 0;
}

}  // namespace

Command tokenize_command() {
  static TokenizeArguments o;
  Command command{.name = "tokenize",
                  .help = "Turn texts into token ids",
                  .examples =
                      "  transom tokenize --tokenizer MODEL \"Hello world\"\n"
                      "  transom tokenize --tokenizer MODEL - --json < lines.txt\n"
                      "  transom tokenize --tokenizer MODEL --inputs lines.jsonl --outputs out.jsonl"};
  command.options = {
      {"texts", &o.texts, "texts; - reads one a line from standard input"},
      {"--tokenizer,--model,-m", &o.tokenizer,
       "directory with the tokenizer's files, or a model's id on the Hugging Face Hub", true},
      {"--inputs", &o.inputs,
       "JSON lines with text, text_pair, add_special_tokens; or messages, add_generation_prompt, tools, documents; "
       "of a .txt file one text a line, or such an object; - for standard input"},
      {"--outputs", &o.outputs, "where the JSON lines with ids, offsets, tokens ... go (default: standard output)"},
      {"--json", &o.json, "JSON lines for texts, too"}};
  o.source.add_to(command);
  command.run = [] { return tokenize(o); };
  return command;
}

}  // namespace transom
