// SPDX-License-Identifier: Apache-2.0
// transom merge: adapters of PEFT become part of the weights of their model.
#include "base/directories.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/command.h"
#include "hub/adapters.h"
#include "transom/model.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

bool has_tokenizer(const fs::path& directory) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model",
                           "sentencepiece.bpe.model", "spm.model"})
    if (path_exists(directory / name)) return true;
  return false;
}

int merge(const fs::path& adapters, const fs::path& output) {
  if (!path_exists(adapters / kAdapterConfig))
    fail("{}: expected {}, which PEFT writes, found none", adapters.string(), kAdapterConfig);
  const fs::path base = base_of_adapters(adapters);
  Model::from_pretrained(adapters.string())->save_pretrained(output.string());
  for (const fs::path& folder : {adapters, base})
    if (has_tokenizer(folder)) {
      Tokenizer::from_pretrained(folder.string()).save_pretrained(output.string());
      break;
    }
  const char* preprocessor = "preprocessor_config.json";
  if (path_exists(base / preprocessor)) write_file(output / preprocessor, read_file(base / preprocessor));
  return 0;
}

}  // namespace

Command merge_command() {
  static std::string model, output;
  static ModelOptions source;
  Command command{.name = "merge",
                  .help = "Merge LoRA adapters into the weights of their model",
                  .examples = "  transom merge --model ADAPTERS --output DIRECTORY"};
  command.options = {{"--model", &model, "directory of PEFT's adapters, or their id on the Hugging Face Hub", true},
                     {"--output", &output, "directory for the model", true}};
  source.add_to(command);
  command.run = [] { return merge(resolve_model(model, source.hub()), output); };
  return command;
}

}  // namespace transom
