// SPDX-License-Identifier: Apache-2.0
#include "files/hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/hub/names.h"

namespace transom {
namespace {

constexpr auto kLockPoll = std::chrono::milliseconds(50);
// The Cache Directory Tagging Standard: backup programs leave such a directory out.
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n# This file marks a cache of models of the Hugging Face Hub.\n";

void make_cache_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    fail("{}: cannot be created: {}; set HF_HUB_CACHE to a directory that can be written", path.string(),
         error.message());
}

}  // namespace

ModelCache::ModelCache(fs::path cache, const std::string& id)
    : cache_(std::move(cache)), name_(cache_folder_of(id)), folder_(cache_ / name_) {}

std::optional<std::string> ModelCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const fs::path ref = folder_ / "refs" / revision;
  std::error_code none;
  if (!fs::is_regular_file(ref, none)) return std::nullopt;
  std::string commit = read_file(ref, 4096);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' ')) commit.pop_back();
  if (!is_commit(commit)) return std::nullopt;
  return commit;
}

void ModelCache::set_commit(const std::string& revision, const std::string& commit) const {
  if (commit_of(revision) == commit) return;
  // Temporary files are named by the process: its threads take turns.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const fs::path ref = folder_ / "refs" / revision;
  make_cache_directories(ref.parent_path());
  write_file(ref, commit);
}

std::optional<fs::path> ModelCache::find(const std::string& commit, const std::string& file) const {
  const fs::path path = snapshot(commit) / file;
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return std::nullopt;  // links are followed
  return path;
}

bool ModelCache::known_missing(const std::string& commit, const std::string& file) const {
  std::error_code none;
  return fs::exists(folder_ / ".no_exist" / commit / file, none);
}

void ModelCache::note_missing(const std::string& commit, const std::string& file) const {
  const fs::path path = folder_ / ".no_exist" / commit / file;
  std::error_code none;
  fs::create_directories(path.parent_path(), none);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor >= 0) ::close(descriptor);
}

void ModelCache::prepare() const {
  make_cache_directories(folder_ / "blobs");
  make_cache_directories(cache_ / ".locks" / name_);
  const fs::path tag = cache_ / "CACHEDIR.TAG";
  const int descriptor = ::open(tag.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return;  // it is there
  [[maybe_unused]] const ssize_t written = ::write(descriptor, kCacheTag.data(), kCacheTag.size());
  ::close(descriptor);
}

void ModelCache::link(const std::string& commit, const std::string& file, const std::string& etag) const {
  const fs::path path = snapshot(commit) / file;
  make_cache_directories(path.parent_path());
  fs::path target;
  for (auto depth = 2 + std::count(file.begin(), file.end(), '/'); depth > 0; --depth) target /= "..";
  target = target / "blobs" / etag;
  std::error_code error;
  fs::create_symlink(target, path, error);
  if (error == std::errc::file_exists) {
    // Another process was here at the same time; or the link leads to a blob that is gone, or is an older one.
    std::error_code none;
    if (fs::equivalent(path, blob(etag), none)) return;
    fs::remove(path, error);
    error.clear();
    fs::create_symlink(target, path, error);
    if (error == std::errc::file_exists) return;
  }
  if (error == std::errc::operation_not_permitted || error == std::errc::operation_not_supported ||
      error == std::errc::function_not_supported) {
    fs::path copy = path;
    copy += fmt::format(".{}.tmp", ::getpid());
    fs::copy_file(blob(etag), copy, fs::copy_options::overwrite_existing, error);
    if (!error) fs::rename(copy, path, error);
  }
  if (error) fail("{}: cannot be created: {}", path.string(), error.message());
}

fs::path ModelCache::lock_file(const std::string& etag) const { return cache_ / ".locks" / name_ / (etag + ".lock"); }

FileLock::FileLock(const fs::path& path, const std::optional<std::string>& waiting) {
  bool told = false;
  while (true) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (descriptor_ < 0) fail("{}: cannot be opened: {}", path.string(), std::strerror(errno));
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP) return;  // a file system without locks
      if (errno != EWOULDBLOCK && errno != EINTR && errno != EACCES) {
        const int reason = errno;
        ::close(descriptor_);
        fail("{}: cannot be locked: {}", path.string(), std::strerror(reason));
      }
      if (!waiting && errno != EINTR) {
        ::close(descriptor_);
        fail("{}: another process holds this lock", path.string());
      }
      if (!told && waiting) log(LogLevel::kInfo, *waiting);
      told = true;
      std::this_thread::sleep_for(kLockPoll);
    }
    // Whoever held it may have removed the file: then ours is no longer the one that others lock.
    struct stat held {
    }, named{};
    if (::fstat(descriptor_, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev)
      return;
    ::close(descriptor_);
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace transom
