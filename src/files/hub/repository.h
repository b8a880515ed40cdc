// SPDX-License-Identifier: Apache-2.0
// One model of the Hub at one revision: its files from the cache, or downloaded into it.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "files/hub/cache.h"
#include "files/hub/remote.h"
#include "files/hub/settings.h"

namespace transom {

class Repository {
 public:
  // Finds out the commit: from the Hub, else from the cache. Throws where neither knows it. Keeps `settings`.
  Repository(std::string id, const HubSettings& settings);

  // A file of the snapshot, downloaded if need be; nothing where the model has none of that name, or nothing is
  // downloaded. Throws where a download fails.
  std::optional<fs::path> find(const std::string& name);
  // The same for a file that must be there; `what` says in the error what it is.
  fs::path require(const std::string& name, const std::string& what);
  [[noreturn]] void fail_missing(const std::string& what) const;

  fs::path snapshot() const { return cache_.snapshot(commit_); }
  // Lets the branch or tag stand for this commit in the cache: called when all files are there, so that what is there
  // stays complete.
  void keep();

 private:
  void ask(const std::string& revision, bool in_cache);
  bool download(const std::string& name);

  std::string id_;
  const HubSettings& settings_;
  ModelCache cache_;
  Remote remote_;
  std::string commit_;
  std::string offline_;                         // why nothing is downloaded; empty: it is
  bool asked_ = false;                          // the Hub, for the commit
  std::optional<std::set<std::string>> files_;  // of the commit, where the Hub told them
};

}  // namespace transom
