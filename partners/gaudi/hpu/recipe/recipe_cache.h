// SPDX-License-Identifier: Apache-2.0
// Recipes by what they compute: in memory for the life of the device, and in a folder where the environment names one.
// An entry of the folder is two files: <key>.recipe, as the library writes it, and <key>.graph, which is written last
// and says what the recipe computes, for which device and library, and the size and checksum of the first.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "hpu/device/options.h"
#include "hpu/recipe/recipe.h"

namespace transom::hpu {

class RecipeCache {
 public:
  RecipeCache(const SynapseLibrary& library, synDeviceType device, const Options& options);

  // Thread-safe. `name` is for the compiler's messages.
  std::shared_ptr<const Recipe> find(const RecipeGraph& graph, const std::string& name);

  struct Counts {
    size_t compiled, from_memory, from_disk, broken;
  };
  Counts counts() const { return {compiled_, from_memory_, from_disk_, broken_}; }

 private:
  std::shared_ptr<const Recipe> read(const RecipeGraph& graph, const std::string& content);
  void write(const Recipe& recipe, const std::string& content);
  void keep_within_limit();
  std::string base_of(const std::string& content) const;

  const SynapseLibrary& library_;
  synDeviceType device_;
  Options options_;
  std::string header_;  // what an entry is valid for
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Recipe>> recipes_;
  std::atomic<size_t> compiled_{0}, from_memory_{0}, from_disk_{0}, broken_{0};
};

}  // namespace transom::hpu
