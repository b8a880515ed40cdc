// SPDX-License-Identifier: Apache-2.0
#include "files/hub/resolve.h"

#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "files/checkpoint/weight_files.h"
#include "files/ctranslate2/ct2_spec.h"
#include "files/gguf/gguf_file.h"
#include "files/hub/adapters.h"
#include "files/hub/model_files.h"
#include "files/hub/names.h"
#include "files/hub/repository.h"
#include "files/hub/settings.h"
#include "files/original/original_checkpoint.h"

namespace transom {
namespace {

// The directory of a file of weights that Transformers reads there; nothing where the file is another.
std::optional<fs::path> directory_of_weights(const fs::path& path) {
  std::error_code none;
  const std::string ending = path.extension().string();
  if (!fs::is_regular_file(path, none) || (ending != ".safetensors" && ending != ".bin")) return std::nullopt;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::exists(directory / "config.json", none))
    fail("{}: a file of weights alone is no model: expected its directory, with config.json beside it", path.string());
  const std::vector<fs::path> read = weight_files(directory);
  for (const fs::path& file : read)
    if (file.filename() == path.filename()) return directory;
  fail("{}: of this directory {} is read, not this file; give the directory, or move the file into one of its own",
       path.string(), read.empty() ? "nothing" : quoted(read.front().filename().string()));
}

// Whether the name is a directory, or a file that is a model. Throws where it can be neither that nor an id.
bool is_local(const std::string& name) {
  std::error_code none;
  if (fs::is_directory(name, none) || pipeline_of_file(name) || is_container(name) || directory_of_weights(name) ||
      is_onnx_file(name))
    return true;
  if (fs::exists(name, none))
    fail(
        "{}: expected a directory, a GGUF or ONNX file, or an id of the Hugging Face Hub; found a file of another kind",
        name);
  if (name.empty())
    fail(ErrorKind::kUsage, "expected the directory of a model, or its id on the Hugging Face Hub; found ''");
  if (is_model_id(name)) return false;
  if (looks_like_path(name)) fail("{}: there is no such directory", name);
  fail(
      "{}: is neither a directory nor an id of the Hugging Face Hub: expected owner/name, of letters, digits, '-', '_' "
      "and "
      "'.'",
      quoted(name));
}

}  // namespace

namespace {

// A directory that holds a model of GGUF or CTranslate2 and no weights of Transformers stands for that; a file of
// weights for its directory.
fs::path with_gguf(const fs::path& path) {
  if (const auto pipeline = pipeline_of_file(path)) return *pipeline;
  if (const auto directory = is_container(path) ? std::nullopt : directory_of_weights(path)) return *directory;
  if (!directory_exists(path) || is_of_pipeline(path)) return path;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json", kAdapterConfig})
    if (path_exists(path / name)) return path;
  if (const auto file = ct2_file_in(path)) return *file;
  return gguf_in(path).value_or(path);
}

}  // namespace

fs::path resolve_from_hub(const std::string& id, const HubSettings& settings, bool with_weights) {
  Repository repository(id, settings);
  const bool adapters = with_weights && repository.find(kAdapterConfig).has_value();
  if (adapters) repository.require("adapter_model.safetensors", "the weights of PEFT's adapters");
  else if (with_weights) repository.require("config.json", "which every model of Transformers has");
  fetch_descriptions(repository);
  if (with_weights && !adapters) fetch_weights(repository);
  std::error_code none;
  if (!fs::is_directory(repository.snapshot(), none)) repository.fail_missing("files of a tokenizer");
  repository.keep();
  return repository.snapshot();
}

fs::path resolve_model(const std::string& name_or_path, const HubOptions& options) {
  if (is_local(name_or_path)) return with_gguf(name_or_path);
  return resolve_from_hub(name_or_path, HubSettings::of(options), true);
}

bool is_onnx_file(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return false;
  const std::string ending = path.extension().string();
  if (ending == ".onnx" || ending == ".ONNX") return true;
  // ModelProto has no magic bytes: it begins with ir_version, a small number, and goes on with another of its fields,
  // a text or a message.
  char begin[3] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  constexpr std::string_view kFields = "\x12\x1a\x22\x28\x32\x3a\x42";
  constexpr char kIrVersion = 0x08, kLargest = 0x20;
  return begin[0] == kIrVersion && 0 < begin[1] && begin[1] < kLargest && kFields.find(begin[2]) != kFields.npos;
}

namespace {

// The directory itself, or that of a file that is a model.
fs::path folder_of(const fs::path& path) {
  if (is_container(path) || !is_onnx_file(path)) return path;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code none;
  const bool below = !fs::exists(directory / "config.json", none) && fs::exists(directory / ".." / "config.json", none);
  return below ? directory / ".." : directory;
}

}  // namespace

fs::path directory_of_model(const fs::path& path) {
  const fs::path folder = folder_of(path);
  return path_exists(folder / kAdapterConfig) && !path_exists(folder / "config.json") ? base_of_adapters(folder)
                                                                                      : folder;
}

fs::path resolve_tokenizer(const std::string& name_or_path, const HubOptions& options) {
  const fs::path found = is_local(name_or_path) ? with_gguf(folder_of(name_or_path))
                                                : resolve_from_hub(name_or_path, HubSettings::of(options), false);
  // Adapters may have been saved without the tokenizer of their model.
  const bool has_tokenizer = path_exists(found / "tokenizer.json") || path_exists(found / "vocab.txt") ||
                             path_exists(found / "tokenizer_config.json");
  return has_tokenizer ? found : base_of_adapters(found);
}

}  // namespace transom
