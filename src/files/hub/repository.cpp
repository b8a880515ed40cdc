// SPDX-License-Identifier: Apache-2.0
#include "files/hub/repository.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/hub/download.h"
#include "files/hub/names.h"

namespace transom {
namespace {

constexpr int kMostQuestions = 3, kMostFailures = 5, kMostDamaged = 2;
constexpr int64_t kLongestWait = 60;  // seconds

// Before the next try: twice as long each time, or as long as the server asks for.
void wait_before(int tries, int64_t retry_after, const HubSettings& settings) {
  auto time = settings.first_wait * (1 << std::min(tries - 1, 4));
  if (retry_after > 0)
    time = std::max<std::chrono::milliseconds>(time, std::chrono::seconds(std::min(retry_after, kLongestWait)));
  std::this_thread::sleep_for(time);
}

}  // namespace

Repository::Repository(std::string id, const HubSettings& settings)
    : id_(std::move(id)),
      settings_(settings),
      cache_(settings.cache, id_),
      remote_(id_, settings),
      offline_(settings.offline) {
  check_revision(settings.revision, id_);
  const std::optional<std::string> cached = cache_.commit_of(settings.revision);
  if (cached) commit_ = *cached;
  if (is_commit(settings.revision)) return;  // what it stands for cannot change
  if (offline_.empty()) ask(settings.revision, cached.has_value());
  if (commit_.empty())
    fail("{}: is no directory here, and the cache {} has no revision {} of it; nothing is downloaded because {}", id_,
         settings.cache.string(), quoted(settings.revision), offline_);
}

void Repository::ask(const std::string& revision, bool in_cache) {
  asked_ = true;
  // A name of one word may be a directory that is misspelt: that is said before anything is waited for.
  if (!in_cache && id_.find('/') == id_.npos)
    log(LogLevel::kInfo,
        fmt::format("{}: is no directory here; looking for a model of this name at {}", id_, settings_.endpoint));
  for (int failures = 1;; ++failures) {
    try {
      RemoteModel model = remote_.model(revision);
      if (is_commit(revision) && model.commit != revision)
        fail("{}: asked for commit {}, got {}; check HF_ENDPOINT", id_, revision, model.commit);
      commit_ = std::move(model.commit);
      files_ = std::move(model.files);
      return;
    } catch (const HubError& error) {
      if (error.hub_kind() == HubError::Kind::kNoRevision) throw;
      if (in_cache) {
        offline_ = error.what();
        log(LogLevel::kWarning, fmt::format("{}; what the cache has is used", error.what()));
        return;
      }
      if (error.hub_kind() != HubError::Kind::kUnreachable) throw;
      if (failures >= kMostQuestions) {
        // The name may be that of a directory that was meant.
        std::string_view text = error.what();
        if (const std::string prefix = id_ + ": "; text.starts_with(prefix)) text.remove_prefix(prefix.size());
        throw HubError(error.hub_kind(), fmt::format("{}: is no directory here, and {}", id_, text));
      }
      wait_before(failures, error.retry_after(), settings_);
    }
  }
}

std::optional<fs::path> Repository::find(const std::string& name) {
  check_file_name(name, id_);
  if (auto path = cache_.find(commit_, name)) return path;
  if (cache_.known_missing(commit_, name)) return std::nullopt;
  if (offline_.empty() && !asked_) {
    std::error_code none;
    ask(commit_, fs::is_directory(snapshot(), none));
  }
  if (!offline_.empty()) return std::nullopt;
  if (files_ && !files_->contains(name)) {
    cache_.note_missing(commit_, name);
    return std::nullopt;
  }
  if (!download(name)) {
    cache_.note_missing(commit_, name);
    return std::nullopt;
  }
  return snapshot() / name;
}

bool Repository::download(const std::string& name) {
  const std::string where = fmt::format("{}: {}", id_, name);
  int damaged = 0;
  for (int failures = 1;; ++failures) {
    std::string reason;
    int64_t retry_after = 0;
    try {
      const std::optional<RemoteFile> file = remote_.file(commit_, name);
      if (!file) return false;
      DownloadResult result = download_blob(remote_.http(), cache_, *file, settings_, name, where);
      if (result.failure.empty()) {
        cache_.link(commit_, name, file->etag);
        return true;
      }
      if (result.damaged && ++damaged == kMostDamaged)
        fail(
            "{}: {}: the download was damaged or altered on its way and is discarded; try again, or another "
            "HF_ENDPOINT",
            where, result.failure);
      if (result.progressed) failures = 1;
      reason = std::move(result.failure);
      retry_after = result.retry_after;
    } catch (const HubError& error) {
      if (error.hub_kind() != HubError::Kind::kUnreachable) throw;
      reason = error.what();
      retry_after = error.retry_after();
    }
    if (failures >= kMostFailures)
      throw HubError(HubError::Kind::kUnreachable,
                     fmt::format("{}: the download failed {} times, at last: {}; run again to go on where it stopped",
                                 where, failures, reason));
    log(LogLevel::kInfo, fmt::format("{}: {}; trying again", where, reason));
    wait_before(failures, retry_after, settings_);
  }
}

void Repository::fail_missing(const std::string& what) const {
  if (offline_.empty()) fail("{}: has no {} at revision {} ({})", id_, what, quoted(settings_.revision), commit_);
  fail("{}: the cache {} has no {} of revision {}; nothing is downloaded because {}", id_, settings_.cache.string(),
       what, quoted(settings_.revision), offline_);
}

fs::path Repository::require(const std::string& name, const std::string& what) {
  if (auto path = find(name)) return *std::move(path);
  fail_missing(what.empty() ? name : fmt::format("{} ({})", name, what));
}

void Repository::keep() {
  if (!offline_.empty() || is_commit(settings_.revision)) return;
  try {
    cache_.set_commit(settings_.revision, commit_);
  } catch (const Error&) {
    // A cache that can only be read serves as well.
  }
}

}  // namespace transom
