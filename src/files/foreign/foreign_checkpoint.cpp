// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/foreign_checkpoint.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/shard_index.h"
#include "files/foreign/flax/msgpack.h"
#include "files/foreign/parameter_names.h"
#include "files/foreign/permuted_view.h"
#include "files/foreign/tensorflow/hdf5_file.h"
#include "files/foreign/tensorflow/tensor_bundle.h"

namespace transom {
namespace {

constexpr uint64_t kMaximumIndex = uint64_t{1} << 28;
constexpr const char* kObjectVariable = "/.ATTRIBUTES/VARIABLE_VALUE";

void add(ForeignCheckpoint& checkpoint, const ParameterName& parameter, TensorView view) {
  if (parameter.transposed && view.shape.size() >= 2) view = permuted_view(view, torch_axes(view.shape.size()));
  // Conv1D of GPT-2 holds its bias as a row.
  const bool bias = parameter.name == "bias" || parameter.name.ends_with(".bias");
  if (bias && view.shape.size() == 2 && view.shape[0] == 1) view.shape.erase(view.shape.begin());
  // Weight norm of a convolution over time has its lengths along the last axis in PyTorch, along the first in Keras.
  if (parameter.name.ends_with(".weight_g") && view.shape.size() == 3 && view.shape[1] == 1 && view.shape[2] == 1)
    std::swap(view.shape[0], view.shape[2]);
  // CLIP's temperature is a number in PyTorch, a row of one in Keras.
  if (parameter.name.ends_with("logit_scale") && view.shape.size() == 1 && view.shape[0] == 1) view.shape.clear();
  checkpoint.tensors.emplace_back(parameter.name, std::move(view));
}

void add_keras(ForeignCheckpoint& checkpoint, const fs::path& file, bool in_shard) {
  for (auto& [path, view] : read_hdf5(file)) add(checkpoint, name_of_keras_weight(path, in_shard), std::move(view));
}

void add_flax(ForeignCheckpoint& checkpoint, const fs::path& file) {
  NamedViews arrays = read_flax_msgpack(file);
  const auto below = [&](std::string_view top) {
    return std::any_of(arrays.begin(), arrays.end(), [&](const auto& item) { return item.first.starts_with(top); });
  };
  const bool has_statistics = below("batch_stats/") && below("params/");
  for (auto& [path, view] : arrays) add(checkpoint, name_of_flax_parameter(path, has_statistics), std::move(view));
}

// The file, or all shards that its index names.
template <typename AddFile>
std::optional<ForeignCheckpoint> open_file_or_shards(const fs::path& directory, const char* name,
                                                     const AddFile& add_file) {
  ForeignCheckpoint result;
  const fs::path file = directory / name, index = directory / (std::string(name) + ".index.json");
  if (path_exists(file)) {
    result.where = file.string();
    add_file(result, file, false);
    return result;
  }
  if (!path_exists(index)) return {};
  result.where = index.string();
  std::set<std::string> shards;
  for (const auto& [variable, shard] : parse_shard_index(read_file(index, kMaximumIndex), result.where).files)
    shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!path_exists(directory / shard)) fail("{}: names the file {}, which is not there", result.where, quoted(shard));
    add_file(result, directory / shard, true);
  }
  return result;
}

ForeignCheckpoint open_bundle(const fs::path& index) {
  ForeignCheckpoint result{{}, index.string()};
  std::vector<std::string> variables;
  const std::string text = read_file(index, kMaximumIndex);
  for (const auto& [name, entry] :
       parse_bundle_index(std::as_bytes(std::span(text.data(), text.size())), result.where).entries)
    variables.push_back(name);
  for (const std::string& name : variables)
    if (name.ends_with(kObjectVariable))
      fail(
          "{}: {}: is named after Python objects (tf.train.Checkpoint); expected variables of Google's BERT, ALBERT, "
          "ELECTRA or T5, or tf_model.h5",
          result.where, quoted(name));
  const GoogleModel model = google_model_of(variables);
  const auto wanted = [&](std::string_view name) { return name_of_google_variable(name, model).has_value(); };
  for (auto& [name, view] : read_tensor_bundle(index, wanted))
    add(result, *name_of_google_variable(name, model), std::move(view));
  return result;
}

}  // namespace

bool holds_foreign_checkpoint(const fs::path& directory) {
  for (const std::string name : {kKerasWeights, kFlaxWeights})
    if (path_exists(directory / name) || path_exists(directory / (name + ".index.json"))) return true;
  return tensorflow_index(directory).has_value();
}

std::optional<fs::path> tensorflow_index(const fs::path& directory) {
  std::vector<fs::path> found;
  if (!directory_exists(directory)) return {};
  for (const fs::path& path : list_directory(directory))
    if (path.extension() == ".index") found.push_back(path);
  if (found.empty()) return {};
  if (found.size() == 1) return found[0];
  // model_checkpoint_path: "model.ckpt-2000"
  const fs::path state = directory / "checkpoint";
  if (path_exists(state)) {
    const std::string text = read_file(state, 1 << 20);
    const size_t key = text.find("model_checkpoint_path:"), begin = text.find('"', key),
                 end = text.find('"', begin + 1);
    if (key != text.npos && begin != text.npos && end != text.npos) {
      const std::string name = fs::path(text.substr(begin + 1, end - begin - 1)).filename().string() + ".index";
      for (const fs::path& path : found)
        if (path.filename() == name) return path;
    }
  }
  fail("{}: holds several TensorFlow checkpoints, {} and {}; leave one, or a file 'checkpoint' that names it",
       directory.string(), found[0].filename().string(), found[1].filename().string());
}

std::optional<ForeignCheckpoint> open_foreign_checkpoint(const fs::path& directory) {
  if (auto keras = open_file_or_shards(directory, kKerasWeights, add_keras)) return keras;
  const auto flax = [](ForeignCheckpoint& checkpoint, const fs::path& file, bool) { add_flax(checkpoint, file); };
  if (auto found = open_file_or_shards(directory, kFlaxWeights, flax)) return found;
  if (const auto index = tensorflow_index(directory)) return open_bundle(*index);
  return {};
}

}  // namespace transom
