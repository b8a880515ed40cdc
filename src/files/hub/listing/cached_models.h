// SPDX-License-Identifier: Apache-2.0
// The models that are in the cache of huggingface_hub.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "transom/hub.h"

namespace transom {

struct CachedModel {
  std::string id;
  int64_t bytes = 0;                 // of its files, each counted once
  std::vector<std::string> commits;  // whose snapshots there are
  fs::file_time_type changed{};      // when a file last came
};

// Sorted by id; empty where there is no cache. What is no model (data sets, spaces, unfinished folders) is left out.
std::vector<CachedModel> cached_models(const HubOptions& options = {});
// Takes all revisions of a model out of the cache; returns the bytes that this gave back. Throws Error where the cache
// has no such model, and while another process downloads it.
int64_t remove_cached_model(const std::string& id, const HubOptions& options = {});

}  // namespace transom
