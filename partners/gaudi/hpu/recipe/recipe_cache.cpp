// SPDX-License-Identifier: Apache-2.0
#include "hpu/recipe/recipe_cache.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "hpu/device/host.h"

namespace transom::hpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "transom recipe 1";

uint64_t checksum(const std::string& bytes, uint64_t hash) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash ^ hash >> 29;
}

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_ours(const fs::path& path) { return path.extension() == ".recipe" || path.extension() == ".graph"; }

}  // namespace

RecipeCache::RecipeCache(const SynapseLibrary& library, synDeviceType device, const Options& options)
    : library_(library), device_(device), options_(options) {
  header_ =
      fmt::format("{}\ndevice type {}\n{}\n{}\n", kFormat, device, library.version(), options.eager ? "eager" : "lazy");
  if (options_.recipe_folder.empty()) return;
  std::error_code error;
  fs::create_directories(options_.recipe_folder, error);
  if (access(options_.recipe_folder.c_str(), W_OK) != 0) {
    log(TRANSOM_LOG_WARNING, fmt::format("recipes are not kept: the folder {} cannot be written to (see "
                                         "PT_HPU_RECIPE_CACHE_CONFIG)",
                                         options_.recipe_folder));
    options_.recipe_folder.clear();
    return;
  }
  if (options_.empty_recipe_folder)
    for (const auto& entry : fs::directory_iterator(options_.recipe_folder, error))
      if (is_ours(entry.path())) fs::remove(entry.path(), error);
}

std::shared_ptr<const Recipe> RecipeCache::find(const RecipeGraph& graph, const std::string& name) {
  std::string content = graph.content();
  const std::lock_guard lock(mutex_);
  if (const auto found = recipes_.find(content); found != recipes_.end()) {
    ++from_memory_;
    return found->second;
  }
  std::shared_ptr<const Recipe> recipe = read(graph, content);
  if (!recipe) {
    constexpr size_t kFew = 4;  // eager mode's graphs of one operation
    recipe =
        std::make_shared<const Recipe>(library_, graph, device_, options_.eager && graph.nodes.size() <= kFew, name);
    ++compiled_;
    log(TRANSOM_LOG_DEBUG,
        fmt::format("compiled {} of {} nodes; {} recipes so far", name, graph.nodes.size(), compiled_.load()));
    write(*recipe, content);
  }
  // Many shapes over a long life: start again rather than grow without bound. Who uses a recipe holds it.
  constexpr size_t kMost = 4096;
  if (recipes_.size() >= kMost) recipes_.clear();
  recipes_.emplace(std::move(content), recipe);
  return recipe;
}

std::string RecipeCache::base_of(const std::string& content) const {
  const uint64_t first = checksum(content, checksum(header_, 0xCBF29CE484222325));
  const uint64_t second = checksum(content, first ^ 0x9E3779B97F4A7C15);
  return fmt::format("{}/{:016x}{:016x}", options_.recipe_folder, first, second);
}

std::shared_ptr<const Recipe> RecipeCache::read(const RecipeGraph& graph, const std::string& content) {
  if (options_.recipe_folder.empty()) return nullptr;
  const std::string base = base_of(content);
  std::error_code error;
  if (!fs::exists(base + ".graph", error)) return nullptr;
  const std::string bytes = contents_of(base + ".recipe");
  const std::string expected = header_ + fmt::format("{} {:016x}\n", bytes.size(), checksum(bytes, 0)) + content;
  if (!bytes.empty() && contents_of(base + ".graph") == expected) {
    try {
      auto recipe = std::make_shared<const Recipe>(library_, graph, base + ".recipe");
      ++from_disk_;
      return recipe;
    } catch (const Failure&) {  // compiled anew
    }
  }
  ++broken_;
  return nullptr;
}

// Several processes may write the same entry at once: each writes files of its own and renames them.
void RecipeCache::write(const Recipe& recipe, const std::string& content) {
  if (options_.recipe_folder.empty()) return;
  const std::string base = base_of(content), mine = fmt::format("{}.{}.new", base, getpid());
  std::error_code error;
  try {
    recipe.save(mine);
    const std::string bytes = contents_of(mine);
    fs::rename(mine, base + ".recipe");
    std::ofstream file(mine, std::ios::binary);
    file << header_ << fmt::format("{} {:016x}\n", bytes.size(), checksum(bytes, 0)) << content;
    file.close();
    if (!file) throw fs::filesystem_error("the disk is full", mine, {});
    fs::rename(mine, base + ".graph");
    keep_within_limit();
  } catch (const std::exception& failure) {
    fs::remove(mine, error);
    log(TRANSOM_LOG_WARNING, fmt::format("a recipe was not kept in {}: {}", options_.recipe_folder, failure.what()));
  }
}

// The entries that were written first go first.
void RecipeCache::keep_within_limit() {
  if (options_.recipe_folder_megabytes == 0) return;
  struct Entry {
    fs::file_time_type time;
    fs::path path;
    uintmax_t bytes;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.recipe_folder, error))
    if (is_ours(entry.path())) {
      entries.push_back({entry.last_write_time(error), entry.path(), entry.file_size(error)});
      total += entries.back().bytes;
    }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= static_cast<uintmax_t>(options_.recipe_folder_megabytes) << 20) return;
    if (fs::remove(entry.path, error)) total -= entry.bytes;
  }
}

}  // namespace transom::hpu
