// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/sharded_safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/paths.h"
#include "base/json/json.h"
#include "files/checkpoint/safetensors.h"

namespace transom {
namespace {

constexpr const char *kInfo = "DCP_SHARDING_INFO", *kOffsets = "saved_offsets";

std::string file_name(std::string_view set, int64_t rank, size_t number, size_t count) {
  return fmt::format("shard-{:05}-{}-{:05}-of-{:05}.safetensors", rank + 1, set, number, count);
}

bool is_number(std::string_view text) {
  return text.size() >= 5 && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether the name is that of a file of the set.
bool is_file_of(std::string_view set, std::string_view name) {
  constexpr std::string_view kFront = "shard-", kBack = ".safetensors", kOf = "-of-";
  const std::string middle = fmt::format("-{}-", set);
  if (!name.starts_with(kFront) || !name.ends_with(kBack)) return false;
  name.remove_prefix(kFront.size());
  name.remove_suffix(kBack.size());
  const size_t at = name.find(middle);
  if (at == name.npos || !is_number(name.substr(0, at))) return false;
  name.remove_prefix(at + middle.size());
  const size_t of = name.find(kOf);
  return of != name.npos && is_number(name.substr(0, of)) && is_number(name.substr(of + kOf.size()));
}

// The offsets of the tensors of a file; those that the metadata does not name begin at 0.
std::map<std::string, std::vector<int64_t>> offsets_in(const SafetensorsFile& file, const std::string& where) {
  std::map<std::string, std::vector<int64_t>> result;
  const auto found = file.metadata().find(kInfo);
  if (found == file.metadata().end())
    fail("{}: expected {} in the metadata, which says where its boxes begin, found none", where, kInfo);
  const nlohmann::json info = parse_large_json(found->second, where + ": " + kInfo);
  if (!info.is_object()) fail("{}: {}: expected an object", where, kInfo);
  for (const auto& [name, value] : info.items()) {
    const auto list = value.is_object() ? value.find(kOffsets) : value.end();
    if (!value.is_object() || list == value.end() || !list->is_array())
      fail("{}: {}: {}: expected {}, a list of numbers", where, kInfo, quoted(name), kOffsets);
    std::vector<int64_t> offsets;
    for (const auto& item : *list) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > std::numeric_limits<int64_t>::max() / 2)
        fail("{}: {}: {}: expected offsets of at least 0, found {}", where, kInfo, quoted(name), item.dump());
      offsets.push_back(item.get<int64_t>());
    }
    result.emplace(name, std::move(offsets));
  }
  return result;
}

int64_t volume(const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t product = 1;  // of what lies in a file
  for (const int64_t extent : shape) product *= extent;
  return product;
}

}  // namespace

std::vector<std::string> write_shards(const fs::path& directory, std::string_view set, int64_t rank,
                                      const std::vector<TensorBox>& boxes) {
  std::vector<NamedViews> files;
  std::vector<Json> infos;
  std::map<std::string_view, size_t> used;  // files that have a box of the tensor
  for (const TensorBox& box : boxes) {
    const size_t file = used[box.name]++;
    if (file == files.size()) files.emplace_back(), infos.push_back(Json::object());
    files[file].emplace_back(box.name, box.view);
    infos[file].push_back({box.name, Json{{kOffsets, box.offsets}}});
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < files.size(); ++i) {
    names.push_back(file_name(set, rank, i + 1, files.size()));
    write_safetensors(directory / names.back(), files[i],
                      {{"format", "pt"}, {"DCP_VERSION", "1.0"}, {kInfo, dump_json(infos[i])}});
  }
  return names;
}

bool ShardedTensorFiles::exists(const fs::path& directory, std::string_view set) {
  const std::vector<fs::path> entries = entries_of(directory);
  return std::any_of(entries.begin(), entries.end(),
                     [&](const fs::path& entry) { return is_file_of(set, entry.filename().string()); });
}

ShardedTensorFiles ShardedTensorFiles::open(const fs::path& directory, std::string_view set) {
  std::vector<std::pair<std::string, SafetensorsFile>> files;
  for (const fs::path& path : list_directory(directory))
    if (is_file_of(set, path.filename().string())) files.emplace_back(path.string(), SafetensorsFile::open(path));
  return join(files, (directory / fmt::format("shard-*-{}-*.safetensors", set)).string());
}

ShardedTensorFiles ShardedTensorFiles::join(const std::vector<std::pair<std::string, SafetensorsFile>>& files,
                                            std::string where) {
  ShardedTensorFiles result;
  result.where_ = std::move(where);
  for (const auto& [path, file] : files) result.take(path, file);
  for (const auto& [name, boxes] : result.boxes_) result.check(name, boxes);
  return result;
}

void ShardedTensorFiles::take(const std::string& path, const SafetensorsFile& file) {
  const auto offsets = offsets_in(file, path);
  for (const auto& [name, view] : file.tensors()) {
    const auto found = offsets.find(name);
    Box box{found == offsets.end() ? std::vector<int64_t>(view.shape.size()) : found->second, view, path};
    if (box.offsets.size() != view.shape.size())
      fail("{}: tensor {}: expected {} offsets, found {}", box.file, quoted(name), view.shape.size(),
           box.offsets.size());
    Whole& whole = wholes_.try_emplace(name, Whole{view.dtype, std::vector<int64_t>(view.shape.size())}).first->second;
    if (whole.dtype != view.dtype || whole.shape.size() != view.shape.size())
      fail("{}: tensor {}: is {} of {} dimensions here, and another thing in another file", box.file, quoted(name),
           name_of(view.dtype), view.shape.size());
    for (size_t d = 0; d < whole.shape.size(); ++d) {
      int64_t end = 0;
      if (__builtin_add_overflow(box.offsets[d], view.shape[d], &end))
        fail("{}: tensor {}: its box ends beyond any tensor", box.file, quoted(name));
      whole.shape[d] = std::max(whole.shape[d], end);
    }
    boxes_[name].push_back(std::move(box));
  }
}

// Boxes that do not overlap and have as many elements as the whole fill it.
void ShardedTensorFiles::check(const std::string& name, const std::vector<Box>& boxes) {
  const Whole& whole = wholes_.at(name);
  int64_t elements = 1;
  bool fits = true;
  for (const int64_t extent : whole.shape) fits &= !__builtin_mul_overflow(elements, extent, &elements);
  if (std::find(whole.shape.begin(), whole.shape.end(), 0) != whole.shape.end()) elements = 0, fits = true;
  int64_t found = 0;
  for (size_t i = 0; fits && i < boxes.size(); ++i) {
    found += volume(boxes[i].view.shape);
    for (size_t k = 0; k < i; ++k) {
      bool overlap = volume(boxes[i].view.shape) > 0 && volume(boxes[k].view.shape) > 0;
      for (size_t d = 0; d < whole.shape.size(); ++d)
        overlap &= boxes[i].offsets[d] < boxes[k].offsets[d] + boxes[k].view.shape[d] &&
                   boxes[k].offsets[d] < boxes[i].offsets[d] + boxes[i].view.shape[d];
      if (overlap) fail("{}: tensor {}: overlaps what {} has of it", boxes[i].file, quoted(name), boxes[k].file);
    }
  }
  if (!fits || found != elements)
    fail("{}: tensor {}: its boxes have {} of the {} elements of [{}]: a file is missing or belongs to another save",
         where_, quoted(name), found, fits ? std::to_string(elements) : "too many", fmt::join(whole.shape, ", "));
}

const std::vector<ShardedTensorFiles::Box>& ShardedTensorFiles::boxes_of(std::string_view name) const {
  const auto found = boxes_.find(name);
  if (found == boxes_.end()) fail("{}: has no tensor {}", where_, quoted(name));
  return found->second;
}

std::vector<std::byte> ShardedTensorFiles::read(std::string_view name,
                                                const std::vector<std::vector<int64_t>>& places) const {
  const std::vector<Box>& boxes = boxes_of(name);
  const size_t rank = places.size(), width = size_of(wholes_.find(name)->second.dtype);
  size_t count = width;
  for (const auto& each : places) count *= each.size();
  std::vector<std::byte> result(count);
  if (count == 0) return result;
  for (const Box& box : boxes) {
    // The wanted places that lie in the box, as numbers among the wanted ones.
    std::vector<std::pair<size_t, size_t>> common(rank);
    bool empty = false;
    for (size_t d = 0; d < rank; ++d) {
      const auto begin = std::lower_bound(places[d].begin(), places[d].end(), box.offsets[d]);
      const auto end = std::lower_bound(begin, places[d].end(), box.offsets[d] + box.view.shape[d]);
      common[d] = {static_cast<size_t>(begin - places[d].begin()), static_cast<size_t>(end - places[d].begin())};
      empty |= begin == end;
    }
    if (empty) continue;
    // Runs along the last dimension, for each place of the others.
    std::vector<size_t> at(rank);
    for (size_t d = 0; d < rank; ++d) at[d] = common[d].first;
    while (true) {
      size_t from = 0, to = 0;
      for (size_t d = 0; d < rank; ++d) {
        from = from * static_cast<size_t>(box.view.shape[d]) + static_cast<size_t>(places[d][at[d]] - box.offsets[d]);
        to = to * places[d].size() + at[d];
      }
      size_t run = 1;
      if (rank > 0)
        while (at[rank - 1] + run < common[rank - 1].second &&
               places[rank - 1][at[rank - 1] + run] == places[rank - 1][at[rank - 1]] + static_cast<int64_t>(run))
          ++run;
      std::memcpy(result.data() + to * width, box.view.bytes.data() + from * width, run * width);
      if (rank == 0) break;
      size_t d = rank - 1;
      at[d] += run;
      while (at[d] == common[d].second && d > 0) at[d] = common[d].first, ++at[--d];
      if (at[0] == common[0].second) break;
    }
  }
  return result;
}

TensorView ShardedTensorFiles::whole(std::string_view name) const {
  const std::vector<Box>& boxes = boxes_of(name);
  if (boxes.size() == 1) return boxes[0].view;
  const Whole& whole = wholes_.find(name)->second;
  if (volume(whole.shape) == 0) return {whole.dtype, whole.shape, {}, nullptr};
  std::vector<std::vector<int64_t>> places(whole.shape.size());
  for (size_t d = 0; d < places.size(); ++d)
    for (int64_t i = 0; i < whole.shape[d]; ++i) places[d].push_back(i);
  const auto bytes = std::make_shared<const std::vector<std::byte>>(read(name, places));
  return {whole.dtype, whole.shape, *bytes, bytes};
}

}  // namespace transom
