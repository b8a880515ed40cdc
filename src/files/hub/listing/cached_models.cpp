// SPDX-License-Identifier: Apache-2.0
#include "files/hub/listing/cached_models.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files/paths.h"
#include "files/hub/names.h"
#include "files/hub/settings.h"

namespace transom {
namespace {

// "owner/name" of "models--owner--name"; empty for another name.
std::string id_of_folder(const std::string& folder) {
  const std::string kind = "models--", between = "--";
  if (!folder.starts_with(kind)) return "";
  std::string id = folder.substr(kind.size());
  if (const size_t at = id.find(between); at != id.npos) id.replace(at, between.size(), "/");
  return is_model_id(id) && cache_folder_of(id) == folder ? id : "";
}

CachedModel measured(const std::string& id, const fs::path& folder) {
  CachedModel model{.id = id};
  std::error_code none;
  for (auto each = fs::recursive_directory_iterator(folder, none); each != fs::recursive_directory_iterator();
       each.increment(none)) {
    if (!each->is_regular_file(none) || each->is_symlink(none)) continue;
    const uintmax_t size = each->file_size(none);
    if (!none) model.bytes += static_cast<int64_t>(size);
    if (const auto time = each->last_write_time(none); !none) model.changed = std::max(model.changed, time);
  }
  for (const fs::path& snapshot : entries_of(folder / "snapshots"))
    if (fs::is_directory(snapshot, none)) model.commits.push_back(snapshot.filename().string());
  return model;
}

// Whether a process holds one of the locks of this model's files.
bool is_being_downloaded(const fs::path& locks) {
  for (const fs::path& lock : entries_of(locks)) {
    const int descriptor = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) continue;
    const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    ::close(descriptor);
    if (!free) return true;
  }
  return false;
}

}  // namespace

std::vector<CachedModel> cached_models(const HubOptions& options) {
  const fs::path cache = HubSettings::of(options).cache;
  std::vector<CachedModel> models;
  std::error_code none;
  for (const fs::path& entry : entries_of(cache)) {
    const std::string id = id_of_folder(entry.filename().string());
    if (id.empty() || !fs::is_directory(entry, none) || fs::is_symlink(entry, none)) continue;
    CachedModel model = measured(id, entry);
    if (!model.commits.empty()) models.push_back(std::move(model));
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return models;
}

int64_t remove_cached_model(const std::string& id, const HubOptions& options) {
  if (!is_model_id(id)) fail(ErrorKind::kUsage, "{}: expected an id of the Hugging Face Hub: owner/name", quoted(id));
  const fs::path cache = HubSettings::of(options).cache, folder = cache / cache_folder_of(id),
                 locks = cache / ".locks" / cache_folder_of(id);
  std::error_code failed;
  if (!fs::is_directory(folder, failed) || fs::is_symlink(folder, failed))
    fail("{}: is not in the cache {}", id, cache.string());
  if (is_being_downloaded(locks)) fail("{}: is being downloaded by another process; try again later", id);
  const int64_t bytes = measured(id, folder).bytes;
  // Who looks for it meanwhile finds all of it, or nothing.
  const fs::path leaving = cache / fmt::format(".leaving-{}-{}", cache_folder_of(id), ::getpid());
  fs::rename(folder, leaving, failed);
  if (failed) fail("{}: cannot be removed: {}", folder.string(), failed.message());
  fs::remove_all(leaving, failed);
  if (failed) fail("{}: cannot be removed: {}", leaving.string(), failed.message());
  fs::remove_all(locks, failed);
  return bytes;
}

}  // namespace transom
