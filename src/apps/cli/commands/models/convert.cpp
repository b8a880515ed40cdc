// SPDX-License-Identifier: Apache-2.0
// transom convert: a checkpoint in any form that is read becomes a directory of Transformers, with safetensors or with
// what its TensorFlow or Flax classes read.
#include <map>

#include "apps/cli/command.h"
#include "apps/cli/options/companion_files.h"
#include "apps/cli/options/output.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/paths.h"
#include "files/config/model_type.h"
#include "files/foreign/foreign_writer.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/missing_weights.h"
#include "models/save_configuration.h"
#include "transom/config.h"
#include "transom/model.h"

namespace transom {
namespace {

constexpr int64_t kBytesPerGigabyte = 1'000'000'000;

constexpr const char* kSafetensors = "safetensors";
const std::map<std::string, ForeignFormat> kForeignFormats = {{"tf", ForeignFormat::kKeras},
                                                              {"flax", ForeignFormat::kFlax}};

struct ConvertOptions {
  std::string model, output, format = kSafetensors, dtype = "auto";
  int64_t shard_gigabytes = 5;
};

int convert(const fs::path& model, const ConvertOptions& options) {
  expect_directory_name(options.output, "convert");
  const fs::path output = options.output;
  if (is_same_file(output, model))
    fail(ErrorKind::kUsage, "{}: is the model itself; expected another directory", output.string());
  if (options.shard_gigabytes < 1)
    fail(ErrorKind::kUsage, "--max_shard_size: expected at least 1, found {}", options.shard_gigabytes);
  const auto foreign = kForeignFormats.find(options.format);
  if (foreign == kForeignFormats.end() && options.format != kSafetensors)
    fail(ErrorKind::kUsage, "--format: expected safetensors, tf or flax, found '{}'", options.format);
  const uint64_t shard_bytes = static_cast<uint64_t>(options.shard_gigabytes * kBytesPerGigabyte);
  const auto loaded = load_trained(model.string(), {.dtype = options.dtype});
  expect_merged(*loaded);
  if (foreign == kForeignFormats.end()) {
    loaded->save_pretrained(output.string(), shard_bytes);
  } else {
    const std::string type = model_type_of(loaded->config());
    const NamedViews weights = stored_weights(*loaded);
    make_directories(output);
    write_foreign_checkpoint(output, weights, {type, loaded->architecture()}, foreign->second, shard_bytes);
    save_configuration(*loaded, output.string());
  }
  copy_companion_files(model, output);
  return 0;
}

}  // namespace

Command convert_command() {
  static ConvertOptions options;
  static ModelOptions source;
  Command command{.name = "convert",
                  .help = "Write a checkpoint anew: with safetensors, or for TensorFlow or Flax",
                  .examples = "  transom convert MODEL DIRECTORY\n  transom convert MODEL DIRECTORY --format tf"};
  command.options = {
      {kModelPlace, &options.model, kModelHelp, true},
      {"output", &options.output, "directory for the model", true},
      {"--format", &options.format,
       "safetensors; tf (tf_model.h5) or flax (flax_model.msgpack), as the classes of Transformers 4 read them"},
      {"--dtype", &options.dtype, kDtypeHelp},
      {"--max_shard_size", &options.shard_gigabytes, "gigabytes of one file, above which there are several"}};
  source.add_to(command);
  command.run = [] { return convert(resolve_model(options.model, source.hub()), options); };
  return command;
}

}  // namespace transom
