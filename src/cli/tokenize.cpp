// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/files.h"
#include "cli/command.h"
#include "text/tokenize_lines.h"

namespace transom {
namespace {

int tokenize(const fs::path& directory, const std::string& inputs, const std::string& outputs) {
  const Tokenizer tokenizer = Tokenizer::from_pretrained(directory);
  const auto file = MappedFile::open(inputs);
  AtomicFile out(outputs);
  std::string_view rest = file->text();
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (line.find_first_not_of(" \t\r") != line.npos)
      out.write(tokenize_line(tokenizer, line, fmt::format("{}: line {}", inputs, number)) + "\n");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  out.commit();
  return 0;
}

}  // namespace

Command tokenize_command() {
  static std::string tokenizer, inputs, outputs;
  static ModelOptions source;
  Command command{.name = "tokenize",
                  .help = "Turn lines of text into token ids",
                  .examples = "  transom tokenize --tokenizer MODEL --inputs lines.jsonl --outputs out.jsonl"};
  command.options = {
      {"--tokenizer", &tokenizer, "directory with the tokenizer's files, or a model's id on the Hugging Face Hub",
       true},
      {"--inputs", &inputs,
       "JSON lines with text, text_pair, add_special_tokens; or messages, add_generation_prompt, tools, documents",
       true},
      {"--outputs", &outputs, "where the JSON lines with ids, offsets, tokens ... go", true}};
  source.add_to(command);
  command.run = [] { return tokenize(resolve_tokenizer(tokenizer, source.hub()), inputs, outputs); };
  return command;
}

}  // namespace transom
