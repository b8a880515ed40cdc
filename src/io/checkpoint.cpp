// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "io/torch_file.h"

namespace transom {
namespace {

constexpr std::string_view kSafetensors = "model.safetensors";
constexpr std::string_view kTorch = "pytorch_model.bin";
constexpr std::string_view kIndex = ".index.json";

NamedViews read_weights(const fs::path& path) {
  return path.extension() == ".safetensors" ? SafetensorsFile::open(path).tensors() : read_torch_state_dict(path);
}

}  // namespace

std::set<std::string> shard_names(const fs::path& index) {
  const Json json = read_json(index);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail("{}: expected an object weight_map", index.string());
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) fail("{}: weight_map {}: expected the name of a file", index.string(), quoted(tensor));
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != name.npos || name.find('\\') != name.npos || name == ".." ||
        name.find('\0') != name.npos)
      fail("{}: weight_map {}: {} is no plain file name", index.string(), quoted(tensor), quoted(name));
    names.insert(name);
  }
  return names;
}

namespace {

// The names that saving gives: model.safetensors, its index, model-00001-of-00002.safetensors. Nothing else is ours.
bool is_weight_file(const std::string& name) {
  if (name == kSafetensors || name == std::string(kSafetensors) + std::string(kIndex)) return true;
  constexpr std::string_view kShape = "model-#####-of-#####.safetensors";
  if (name.size() != kShape.size()) return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (kShape[i] == '#' ? name[i] < '0' || name[i] > '9' : name[i] != kShape[i]) return false;
  return true;
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& directory) {
  Checkpoint result;
  for (const std::string_view name : {kSafetensors, kTorch}) {
    const fs::path file = directory / name;
    const fs::path index = directory / (std::string(name) + std::string(kIndex));
    if (fs::exists(file)) {
      result.where_ = file.string();
      result.add(read_weights(file));
      return result;
    }
    if (fs::exists(index)) {
      result.where_ = index.string();
      for (const std::string& shard : shard_names(index)) result.add(read_weights(directory / shard));
      return result;
    }
  }
  fail(
      "{}: holds no weights: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin or "
      "pytorch_model.bin.index.json",
      directory.string());
}

void Checkpoint::add(NamedViews tensors) {
  for (auto& [name, view] : tensors) {
    if (!places_.emplace(name, tensors_.size()).second) fail("{}: tensor {} comes in two files", where_, quoted(name));
    tensors_.emplace_back(name, std::move(view));
  }
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second].second;
}

void save_checkpoint(const fs::path& directory, const NamedViews& tensors, uint64_t max_shard_bytes) {
  std::vector<NamedViews> shards(1);
  uint64_t filled = 0, total = 0, parameters = 0;
  for (const auto& item : tensors) {
    const uint64_t bytes = item.second.bytes.size();
    if (filled > 0 && filled + bytes > max_shard_bytes) shards.emplace_back(), filled = 0;
    shards.back().push_back(item);
    filled += bytes;
    total += bytes;
    parameters += bytes / size_of(item.second.dtype);
  }
  std::set<std::string> written;
  Json map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? std::string(kSafetensors)
                                                : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_safetensors(directory / name, shards[i]);
    written.insert(name);
    for (const auto& [tensor, view] : shards[i]) map[tensor] = name;
  }
  if (shards.size() > 1) {
    const std::string index = std::string(kSafetensors) + std::string(kIndex);
    const nlohmann::json sorted = map;
    write_file(directory / index, dump_json({{"metadata", {{"total_parameters", parameters}, {"total_size", total}}},
                                             {"weight_map", Json(sorted)}},
                                            2) +
                                      "\n");
    written.insert(index);
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (is_weight_file(name) && !written.contains(name)) fs::remove(entry.path());
  }
}

}  // namespace transom
