// SPDX-License-Identifier: Apache-2.0
#include "cli/companion_files.h"

#include "base/directories.h"

namespace transom {
namespace {

constexpr const char* kCompanions[] = {"tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.txt",
                                       "vocab.json",
                                       "merges.txt",
                                       "spiece.model",
                                       "spm.model",
                                       "sentencepiece.bpe.model",
                                       "tokenizer.model",
                                       "source.spm",
                                       "target.spm",
                                       "target_vocab.json",
                                       "chat_template.jinja",
                                       "normalizer.json",
                                       "preprocessor_config.json",
                                       "processor_config.json",
                                       "generation_config.json",
                                       "modules.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json"};
constexpr uint64_t kMaximumFile = uint64_t{1} << 30;

void copy_absent(const fs::path& from, const fs::path& to) {
  if (!path_exists(to)) write_file(to, read_file(from, kMaximumFile));
}

}  // namespace

void copy_companion_files(const fs::path& model, const fs::path& output) {
  make_directories(output);
  for (const char* name : kCompanions)
    if (path_exists(model / name)) copy_absent(model / name, output / name);
  // 1_Pooling/config.json and the like, which modules.json names.
  if (!path_exists(model / "modules.json")) return;
  for (const fs::path& module : list_directory(model)) {
    if (!directory_exists(module) || !path_exists(module / "config.json")) continue;
    make_directories(output / module.filename());
    copy_absent(module / "config.json", output / module.filename() / "config.json");
  }
}

}  // namespace transom
