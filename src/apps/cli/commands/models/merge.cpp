// SPDX-License-Identifier: Apache-2.0
// transom merge: adapters of PEFT become part of the weights of their model; the parts that processes saved become
// whole weights.
#include "apps/cli/command.h"
#include "apps/cli/options/companion_files.h"
#include "apps/cli/options/output.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/sharded_safetensors.h"
#include "files/hub/adapters.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/missing_weights.h"
#include "transom/model.h"
#include "transom/tokenizer.h"
#include "work/train/files/manifest.h"

namespace transom {
namespace {

constexpr uint64_t kShardBytes = uint64_t{5} << 30;  // as save_pretrained writes them

bool has_tokenizer(const fs::path& directory) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model",
                           "sentencepiece.bpe.model", "spm.model"})
    if (path_exists(directory / name)) return true;
  return false;
}

// What a run needs and a model does not.
bool is_of_run(const std::string& name) {
  for (const std::string_view each :
       {kManifest, std::string_view("scheduler.json"), std::string_view("trainer_state.json")})
    if (name == each) return true;
  return name.starts_with("shard-") && name.ends_with(".safetensors");
}

int merge_shards(const fs::path& shards, const fs::path& output) {
  std::error_code none;
  if (fs::equivalent(shards, output, none))
    fail(ErrorKind::kUsage, "--output: expected another directory than --model");
  if (file_exists(shards / kManifest)) check_files(shards, Manifest::read(shards), 0, 1);
  const Checkpoint checkpoint = Checkpoint::open(shards);
  make_directories(output);
  save_checkpoint(output, checkpoint.tensors(), kShardBytes);
  for (const fs::path& path : list_directory(shards))
    if (file_exists(path) && !is_of_run(path.filename().string()))
      write_file(output / path.filename(), MappedFile::open(path)->text());
  return 0;
}

int merge(const fs::path& adapters, const fs::path& output) {
  expect_directory_name(output.string(), "merge");
  if (!path_exists(adapters / kAdapterConfig) && ShardedTensorFiles::exists(adapters))
    return merge_shards(adapters, output);
  if (!path_exists(adapters / kAdapterConfig))
    fail("{}: expected {}, which PEFT writes, or shard-*-model-*.safetensors of a sharded run, found none",
         adapters.string(), kAdapterConfig);
  const fs::path base = base_of_adapters(adapters);
  const auto model = load_trained(adapters.string());
  expect_merged(*model);
  model->save_pretrained(output.string());
  for (const fs::path& folder : {adapters, base})
    if (has_tokenizer(folder)) {
      Tokenizer::from_pretrained(folder.string()).save_pretrained(output.string());
      break;
    }
  copy_companion_files(adapters, output);
  return 0;
}

}  // namespace

Command merge_command() {
  static std::string model, output;
  static ModelOptions source;
  Command command{.name = "merge",
                  .help = "Merge adapters of PEFT, or the parts of a sharded checkpoint, into one model",
                  .examples =
                      "  transom merge --model ADAPTERS --output DIRECTORY\n"
                      "  transom merge out/checkpoint-500 DIRECTORY"};
  command.options = {
      {kModelPlace, &model,
       "directory of PEFT's adapters, or their id on the Hugging Face Hub; checkpoint of a sharded run", true},
      {"output,--output", &output, "directory for the model", true}};
  source.add_to(command);
  command.run = [] { return merge(resolve_model(model, source.hub()), output); };
  return command;
}

}  // namespace transom
