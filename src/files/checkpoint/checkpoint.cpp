// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/checkpoint.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "files/blocks/quantization_config.h"
#include "files/checkpoint/safetensors.h"
#include "files/checkpoint/shard_index.h"
#include "files/checkpoint/sharded_safetensors.h"
#include "files/checkpoint/torch_file.h"
#include "files/ctranslate2/ct2_spec.h"
#include "files/foreign/foreign_checkpoint.h"
#include "files/gguf/gguf_model.h"
#include "files/original/original_checkpoint.h"

namespace transom {
namespace {

constexpr std::string_view kSafetensors = "model.safetensors";
constexpr std::string_view kTorch = "pytorch_model.bin";
// Parts of a pipeline of diffusers.
constexpr std::string_view kDiffusersSafetensors = "diffusion_pytorch_model.safetensors";
constexpr std::string_view kDiffusersTorch = "diffusion_pytorch_model.bin";
constexpr std::string_view kReadNames[] = {kSafetensors, kTorch, kDiffusersSafetensors, kDiffusersTorch};
constexpr std::string_view kIndex = ".index.json";
constexpr std::string_view kKept = "old-";  // before the name of a shard that is being replaced
constexpr uint64_t kMaximumIndex = uint64_t{1} << 28;

// Other names of tensors that a file holds.
using Aliases = std::map<std::string, std::string>;

// What a clone without Git LFS has in place of a large file.
void refuse_pointer(const fs::path& path) {
  constexpr uint64_t kLongest = 1024;
  std::error_code error;
  if (fs::file_size(path, error) > kLongest || error) return;
  if (read_file(path, kLongest).starts_with("version https://git-lfs.github.com/"))
    fail("{}: expected weights, found a pointer of Git LFS to them; 'git lfs pull' in its folder fetches the file",
         path.string());
}

// Without what wrappers of torch put into names: torch.compile, FSDP and activation checkpointing wherever they wrap,
// DataParallel before all.
std::string without_wrappers(std::string name, bool is_parallel) {
  for (const std::string_view wrapper : {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
    for (size_t at = name.find(wrapper); at != name.npos; at = name.find(wrapper)) name.erase(at, wrapper.size());
  constexpr std::string_view kParallel = "module.";
  return is_parallel && name.starts_with(kParallel) ? name.substr(kParallel.size()) : name;
}

// safetensors.torch.save_model keeps one name of tensors that share their memory; the metadata has the others.
NamedViews read_weights(const fs::path& path, Aliases& aliases) {
  refuse_pointer(path);
  if (path.extension() != ".safetensors") return read_torch_state_dict(path);
  SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [alias, kept] : file.metadata())
    if (file.find(kept)) aliases.emplace(alias, kept);
  return std::move(file).tensors();
}

ShardIndex read_index(const fs::path& path) { return parse_shard_index(read_file(path, kMaximumIndex), path.string()); }

}  // namespace

std::set<std::string> shard_names(const fs::path& index) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : read_index(index).files) names.insert(file);
  return names;
}

namespace {

fs::path index_of(const fs::path& directory, std::string_view name) {
  return directory / (std::string(name) + std::string(kIndex));
}

std::string shard_name(size_t number, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number, count);
}

// The names that saving gives: model.safetensors, its index, model-00001-of-00002.safetensors, and for the time of a
// save old-model-00001-of-00002.safetensors. Nothing else is ours.
bool is_weight_file(std::string_view name) {
  if (name == kSafetensors || name == std::string(kSafetensors) + std::string(kIndex)) return true;
  constexpr std::string_view kShape = "model-#####-of-#####.safetensors";
  if (name.starts_with(kKept)) name.remove_prefix(kKept.size());
  if (name.size() != kShape.size()) return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (kShape[i] == '#' ? name[i] < '0' || name[i] > '9' : name[i] != kShape[i]) return false;
  return true;
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail("{}: cannot be removed: {}", path.string(), error.message());
}

// Before shards are replaced by others of the same names: gives the old ones a second name and lets the old index point
// there, so that a crash between two shards leaves the old checkpoint whole.
void keep_old_shards(const fs::path& directory, const std::set<std::string>& replaced) {
  const fs::path path = index_of(directory, kSafetensors);
  std::error_code error;
  if (!fs::exists(path, error)) return;
  ShardIndex index;
  try {
    index = read_index(path);
  } catch (const Error&) {
    remove_file(path);  // it leads nowhere: better none than one that mixes old and new
    return;
  }
  std::set<std::string> kept;
  for (auto& [tensor, file] : index.files) {
    if (!replaced.contains(file)) continue;
    const std::string name = std::string(kKept) + file;
    if (kept.insert(file).second) {
      fs::remove(directory / name, error);
      fs::create_hard_link(directory / file, directory / name, error);
      if (error) fs::copy_file(directory / file, directory / name, error);
      if (error) {  // a shard is gone, or there is no room: the old checkpoint cannot be kept whole
        remove_file(path);
        return;
      }
    }
    file = name;
  }
  if (!kept.empty()) write_file(path, print_shard_index(index));
}

}  // namespace

namespace {

Checkpoint unwrapped(Checkpoint wrapped) {
  bool is_wrapped = false, is_parallel = !wrapped.tensors().empty();
  for (const auto& [name, view] : wrapped.tensors()) {
    const std::string bare = without_wrappers(name, false);
    is_wrapped = is_wrapped || bare != name;
    is_parallel = is_parallel && bare.starts_with("module.");
  }
  if (!is_wrapped && !is_parallel) return wrapped;
  Checkpoint checkpoint(wrapped.where());
  for (const auto& [name, view] : wrapped.tensors()) checkpoint.add(without_wrappers(name, is_parallel), view);
  return checkpoint;
}

// Weights in the forms of quantization_config become compressed ones.
Checkpoint with_codes(Checkpoint wrapped, const fs::path& directory) {
  Checkpoint checkpoint = unwrapped(std::move(wrapped));
  if (const std::optional<Config> config = quantization_config(directory)) read_quantized_weights(*config, checkpoint);
  return checkpoint;
}

// Who needs one of them says so; others are of parts that the model does not have.
void warn_of_absent(const ShardIndex& index, const Checkpoint& checkpoint) {
  std::vector<std::string> absent;
  for (const auto& [tensor, shard] : index.files)
    if (!checkpoint.find(tensor)) absent.push_back(tensor);
  if (absent.empty()) return;
  log(LogLevel::kWarning,
      fmt::format("{}: names {} that {} in no file: {}{}", checkpoint.where(),
                  absent.size() == 1 ? "a tensor" : fmt::format("{} tensors", absent.size()),
                  absent.size() == 1 ? "is" : "are", quoted(absent[0]), absent.size() > 1 ? " ..." : ""));
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& directory) {
  Checkpoint result;
  if (is_ct2_file(directory)) {
    result.where_ = directory.string();
    result.add(ct2_weights(directory));
    return result;
  }
  if (is_container(directory)) return gguf_checkpoint(GgufFile::open(directory));
  Aliases aliases;
  for (const std::string_view name : kReadNames) {
    const fs::path file = directory / name;
    const fs::path index = index_of(directory, name);
    if (path_exists(file)) {
      result.where_ = file.string();
      result.add(read_weights(file, aliases));
      result.add_aliases(aliases);
      return with_codes(std::move(result), directory);
    }
    if (path_exists(index)) {
      result.where_ = index.string();
      const ShardIndex shards = read_index(index);
      std::set<std::string> files;
      for (const auto& [tensor, shard] : shards.files) files.insert(shard);
      for (const std::string& shard : files) {
        if (!path_exists(directory / shard))
          fail("{}: names the file {}, which is not there", result.where_, quoted(shard));
        result.add_shard(read_weights(directory / shard, aliases), shard, shards.files);
      }
      result.add_aliases(aliases);
      warn_of_absent(shards, result);
      return with_codes(std::move(result), directory);
    }
  }
  if (ShardedTensorFiles::exists(directory)) {
    const ShardedTensorFiles shards = ShardedTensorFiles::open(directory);
    result.where_ = shards.where();
    for (const auto& [name, whole] : shards.tensors()) result.add(name, shards.whole(name));
    return result;
  }
  if (std::optional<ForeignCheckpoint> foreign = open_foreign_checkpoint(directory)) {
    result.where_ = foreign->where;
    result.add(std::move(foreign->tensors));
    return result;
  }
  if (std::optional<Checkpoint> original = open_original_checkpoint(directory)) return std::move(*original);
  fail(
      "{}: holds no weights: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin, "
      "pytorch_model.bin.index.json, shard-*-model-*.safetensors, tf_model.h5, flax_model.msgpack or a TensorFlow "
      "checkpoint (NAME.index)",
      directory.string());
}

bool Checkpoint::exists(const fs::path& directory) {
  if (is_container(directory)) return true;
  for (const std::string_view name : kReadNames)
    if (path_exists(directory / name) || path_exists(index_of(directory, name))) return true;
  if (ShardedTensorFiles::exists(directory)) return true;
  return holds_foreign_checkpoint(directory) || holds_original_checkpoint(directory);
}

void Checkpoint::add(NamedViews tensors) {
  for (auto& [name, view] : tensors) add(name, std::move(view));
}

void Checkpoint::add_shard(NamedViews tensors, const std::string& shard,
                           const std::map<std::string, std::string>& places) {
  for (auto& [name, view] : tensors) {
    const auto known = places_.find(name);
    if (known == places_.end()) {
      add(name, std::move(view));
      continue;
    }
    TensorView& first = tensors_[known->second].second;
    const bool same = first.dtype == view.dtype && first.shape == view.shape &&
                      std::equal(first.bytes.begin(), first.bytes.end(), view.bytes.begin(), view.bytes.end());
    const auto place = places.find(name);
    if (!same && place == places.end())
      fail("{}: tensor {} is in several files with different values, and the index does not say which counts", where_,
           quoted(name));
    if (place != places.end() && place->second == shard) first = std::move(view);
  }
}

void Checkpoint::add_aliases(const std::map<std::string, std::string>& aliases) {
  for (const auto& [alias, kept] : aliases)
    if (!find(alias)) add(alias, TensorView(*find(kept)));
}

void Checkpoint::add(std::string name, TensorView tensor) {
  if (compressed_.contains(name) || !places_.emplace(name, tensors_.size()).second)
    fail("{}: tensor {} comes twice", where_, quoted(name));
  tensors_.emplace_back(std::move(name), std::move(tensor));
}

void Checkpoint::add_compressed(std::string name, CompressedWeight weight) {
  if (places_.contains(name) || !compressed_.emplace(name, std::move(weight)).second)
    fail("{}: tensor {} comes twice", where_, quoted(name));
}

std::optional<TensorView> Checkpoint::take(std::string_view name) {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  const size_t place = found->second;
  TensorView view = std::move(tensors_[place].second);
  places_.erase(found);
  if (place + 1 != tensors_.size()) {  // the last one takes its place
    tensors_[place] = std::move(tensors_.back());
    places_.find(tensors_[place].first)->second = place;
  }
  tensors_.pop_back();
  return view;
}

const CompressedWeight* Checkpoint::find_compressed(std::string_view name) const {
  const auto found = compressed_.find(name);
  return found == compressed_.end() ? nullptr : &found->second;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second].second;
}

void save_checkpoint(const fs::path& directory, const NamedViews& tensors, uint64_t max_shard_bytes) {
  std::vector<NamedViews> shards(1);
  uint64_t filled = 0;
  ShardIndex index;
  for (const auto& item : tensors) {
    const uint64_t bytes = item.second.bytes.size();
    if (filled > 0 && filled + bytes > max_shard_bytes) shards.emplace_back(), filled = 0;
    shards.back().push_back(item);
    filled += bytes;
    index.total_size += bytes;
    index.total_parameters += bytes / size_of(item.second.dtype);
  }
  // At every instant the directory holds the old checkpoint or the new one: model.safetensors goes before an index, and
  // each of the two appears, whole, by one rename; what it points to is there before, what it replaces goes after.
  std::set<std::string> written;
  if (shards.size() == 1) {
    write_safetensors(directory / kSafetensors, shards[0]);
    written.insert(std::string(kSafetensors));
  } else {
    for (size_t i = 0; i < shards.size(); ++i) written.insert(shard_name(i + 1, shards.size()));
    if (!path_exists(directory / kSafetensors)) keep_old_shards(directory, written);
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i + 1, shards.size());
      write_safetensors(directory / name, shards[i]);
      for (const auto& [tensor, view] : shards[i]) index.files[tensor] = name;
    }
    const fs::path path = index_of(directory, kSafetensors);
    write_file(path, print_shard_index(index));
    written.insert(path.filename().string());
  }
  std::vector<fs::path> left;
  for (const fs::path& path : list_directory(directory)) {
    const std::string name = path.filename().string();
    const std::optional<std::string> abandoned = abandoned_destination(path.string());
    if ((is_weight_file(name) && !written.contains(name)) || (abandoned && is_weight_file(*abandoned)))
      left.push_back(path);
  }
  // An old index goes before the shards it names.
  std::sort(left.begin(), left.end(),
            [](const fs::path& a, const fs::path& b) { return a.extension() < b.extension(); });
  for (const fs::path& path : left) remove_file(path);
}

}  // namespace transom
