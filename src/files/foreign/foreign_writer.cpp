// SPDX-License-Identifier: Apache-2.0
#include "files/foreign/foreign_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "files/checkpoint/converted_view.h"
#include "files/checkpoint/shard_index.h"
#include "files/foreign/flax/flax_writer.h"
#include "files/foreign/foreign_checkpoint.h"
#include "files/foreign/permuted_view.h"
#include "files/foreign/tensorflow/hdf5_writer.h"

namespace transom {
namespace {

using Weights = std::vector<ForeignWeight>;

DType stored_type(DType dtype, ForeignFormat format) {
  return format == ForeignFormat::kKeras && dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

uint64_t stored_bytes(const ForeignWeight& weight, const NamedViews& tensors, ForeignFormat format) {
  const TensorView& view = tensors[weight.source].second;
  return view.bytes.size() / size_of(view.dtype) * size_of(stored_type(view.dtype, format));
}

// The bytes of a weight in the type and order of the file; outlives nothing but `tensors`.
std::function<TensorView()> values_of(const ForeignWeight& weight, const NamedViews& tensors, ForeignFormat format) {
  return [&weight, &view = tensors[weight.source].second, format] {
    TensorView values = view;
    if (const DType dtype = stored_type(view.dtype, format); dtype != view.dtype)
      values = converted_view(values, dtype).value();
    return weight.axes.empty() ? values : permuted_view(values, weight.axes);
  };
}

// What Keras calls a weight in a shard: without its layer, and without the model where that is named.
std::string name_in_shard(const std::string& path) {
  const std::string name = path.substr(path.find('/') + 1);
  if (name.find("model.") != name.npos || name.find('/') == name.npos) return name;
  return name.substr(name.find('/') + 1);
}

// Layers that read the tables of the body: Keras looks for these in their groups too.
bool reads_tables(std::string_view layer) {
  constexpr std::string_view kLayers[] = {"mlm___cls", "lm_head", "predictions",     "cls",
                                          "encoder",   "decoder", "vocab_projector", "generator_lm_head"};
  return std::find(std::begin(kLayers), std::end(kLayers), layer) != std::end(kLayers);
}

void write_keras(const fs::path& file, const Weights& weights, const NamedViews& tensors, bool is_shard) {
  constexpr ForeignFormat kFormat = ForeignFormat::kKeras;
  Hdf5Writer writer;
  std::vector<std::string> layers;  // in a shard: the weights
  std::map<std::string, std::vector<std::string>> weights_of;
  for (const ForeignWeight& weight : weights) {
    const std::string path = is_shard ? name_in_shard(weight.name) : weight.name;
    writer.add_dataset(path, stored_type(tensors[weight.source].second.dtype, kFormat), weight.shape,
                       values_of(weight, tensors, kFormat));
    const std::string layer = is_shard ? path : path.substr(0, path.find('/'));
    if (!weights_of.contains(layer) && layer != kKerasTopLevel) layers.push_back(layer);
    weights_of[layer].push_back(path.substr(path.find('/') + 1));
  }
  if (!is_shard)
    for (const ForeignWeight& weight : weights)
      for (const std::string& layer : layers)
        if (weight.name.ends_with("/embeddings:0") && reads_tables(layer) && !weight.name.starts_with(layer + "/")) {
          const std::string name = weight.name.substr(weight.name.find('/') + 1);
          writer.add_link(layer + "/" + name, weight.name);
          weights_of[layer].push_back(name);
        }
  if (!is_shard)
    for (const auto& [layer, names] : weights_of) writer.add_texts(layer, "weight_names", names);
  writer.add_texts("", "layer_names", layers);
  writer.add_text("", "backend", "tensorflow");
  writer.add_text("", "keras_version", "2.15.0");
  writer.write(file);
}

void write_flax(const fs::path& file, const Weights& weights, const NamedViews& tensors) {
  FlaxWriter writer;
  for (const ForeignWeight& weight : weights)
    writer.add(weight.name, tensors[weight.source].second.dtype, weight.shape,
               values_of(weight, tensors, ForeignFormat::kFlax));
  writer.write(file);
}

// tf_model.h5 -> tf_model-00001-of-00002.h5
std::string shard_of(const fs::path& name, size_t number, size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.stem().string(), number, count, name.extension().string());
}

void remove_others(const fs::path& directory, const fs::path& name, const std::vector<std::string>& written) {
  const std::string shards = name.stem().string() + "-", index = name.string() + ".index.json";
  for (const fs::path& path : list_directory(directory)) {
    const std::string found = path.filename().string();
    const bool ours =
        found == name || found == index || (found.starts_with(shards) && path.extension() == name.extension());
    if (ours && std::find(written.begin(), written.end(), found) == written.end()) remove_tree(path);
  }
}

}  // namespace

void write_foreign_checkpoint(const fs::path& directory, const NamedViews& tensors, const ForeignModel& model,
                              ForeignFormat format, uint64_t max_shard_bytes) {
  const bool keras = format == ForeignFormat::kKeras;
  const Weights weights = keras ? keras_weights(tensors, model) : flax_weights(tensors, model);
  const fs::path name = keras ? kKerasWeights : kFlaxWeights;
  std::vector<Weights> shards(1);
  ShardIndex index;
  uint64_t filled = 0;
  for (const ForeignWeight& weight : weights) {
    const uint64_t bytes = stored_bytes(weight, tensors, format);
    if (filled > 0 && filled + bytes > max_shard_bytes) shards.emplace_back(), filled = 0;
    shards.back().push_back(weight);
    filled += bytes;
    index.total_size += bytes;
    const TensorView& view = tensors[weight.source].second;
    index.total_parameters += view.bytes.size() / size_of(view.dtype);
  }
  std::vector<std::string> written;
  for (size_t i = 0; i < shards.size(); ++i) {
    const bool is_shard = shards.size() > 1;
    written.push_back(is_shard ? shard_of(name, i + 1, shards.size()) : name.string());
    if (keras) write_keras(directory / written.back(), shards[i], tensors, is_shard);
    else write_flax(directory / written.back(), shards[i], tensors);
    for (const ForeignWeight& weight : shards[i])
      index.files[keras ? weight.name.substr(weight.name.find('/') + 1) : weight.name] = written.back();
  }
  if (shards.size() > 1) {
    written.push_back(name.string() + ".index.json");
    write_file(directory / written.back(), print_shard_index(index));
  }
  remove_others(directory, name, written);
}

}  // namespace transom
