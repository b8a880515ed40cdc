// SPDX-License-Identifier: Apache-2.0
// The files that clients upload for batches, and those that batches write, in one folder that outlives the server.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/hub/cache.h"

namespace transom::serve {

struct StoredFile {
  std::string id, name, purpose;
  int64_t bytes = 0, created_at = 0;  // seconds since 1970
};

// The object `file` of OpenAI's interface.
Json json_of_file(const StoredFile& file);

// Any thread. Identifiers are made here, and no path is made of one that is not known.
class FileStore {
 public:
  static constexpr size_t kMostFiles = 10'000;
  // Makes the folder, and reads what is in it. Refuses one that another server has: both would run
  // the same batches.
  explicit FileStore(fs::path folder);
  // Throws ApiError 400 where there are kMostFiles.
  StoredFile add(const std::string& name, const std::string& purpose, std::string_view content);
  // Takes a finished file of the same disk as its own.
  StoredFile take(const fs::path& path, const std::string& name, const std::string& purpose);
  // Throw ApiError 404 without such a file.
  StoredFile find(const std::string& id) const;
  std::string content(const std::string& id) const;
  void remove(const std::string& id);
  std::vector<StoredFile> list() const;  // the newest first

 private:
  StoredFile enter(StoredFile file);
  fs::path folder_;
  FileLock lock_;
  mutable std::mutex mutex_;
  std::map<std::string, StoredFile> files_;
};

}  // namespace transom::serve
