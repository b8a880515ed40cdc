// SPDX-License-Identifier: Apache-2.0
// The part of the cache that belongs to one model, as huggingface_hub lays it out:
//
//   models--owner--name/refs/main                        the commit of a branch or tag
//   models--owner--name/blobs/<etag>                     contents; <etag>.incomplete while they are downloaded
//   models--owner--name/snapshots/<commit>/config.json   a relative link to the blob
//   models--owner--name/.no_exist/<commit>/<file>        the commit has no such file
//   .locks/models--owner--name/<etag>.lock               held (flock) by the process that downloads a blob
//
// Names are checked by the caller (hub/names.h).
#pragma once

#include <optional>
#include <string>

#include "base/files/files.h"

namespace transom {

class ModelCache {
 public:
  ModelCache(fs::path cache, const std::string& id);

  // The commit that a branch or tag stands for; a commit stands for itself. Nothing where it is not known.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit(const std::string& revision, const std::string& commit) const;

  fs::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }
  std::optional<fs::path> find(const std::string& commit, const std::string& file) const;
  bool known_missing(const std::string& commit, const std::string& file) const;
  void note_missing(const std::string& commit, const std::string& file) const;  // where the cache can be written

  fs::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  // Makes the folders that a download writes into.
  void prepare() const;
  // Makes the file of a snapshot a link to the blob (a copy where the file system has no links).
  void link(const std::string& commit, const std::string& file, const std::string& etag) const;

  fs::path lock_file(const std::string& etag) const;

 private:
  fs::path cache_, name_, folder_;
};

// Holds a lock file that huggingface_hub honours too; waits for its owner. Released when the process ends.
class FileLock {
 public:
  // `waiting` is told to the log, once, if someone else holds the lock; without it such a lock is refused.
  FileLock(const fs::path& path, const std::optional<std::string>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace transom
