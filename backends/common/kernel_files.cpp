// SPDX-License-Identifier: Apache-2.0
#include "common/kernel_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace transom::backend {
namespace fs = std::filesystem;
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Ours, and nobody else may write it: what is read from it is run.
bool ours_alone(const struct stat& status) { return status.st_uid == geteuid() && (status.st_mode & 022) == 0; }

struct File {
  int descriptor;
  explicit File(int opened) : descriptor(opened) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

fs::path KernelFiles::folder_from_environment() {
  const std::string named = environment("TRANSOM_KERNEL_CACHE");
  if (named == "off" || named == "0") return {};
  if (!named.empty()) return named;
  const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (cache.starts_with('/')) return fs::path(cache) / "transom" / "kernels";
  if (home.starts_with('/')) return fs::path(home) / ".cache" / "transom" / "kernels";
  return {};
}

bool KernelFiles::is_trusted() const {
  struct stat status;
  return !folder_.empty() && ::stat(folder_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && ours_alone(status);
}

std::optional<std::string> KernelFiles::read(const std::string& name) const {
  if (!is_trusted()) return std::nullopt;
  const File file(::open(path_of(name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      !ours_alone(status) || status.st_size < 0 || static_cast<size_t>(status.st_size) > largest_)
    return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::read(file.descriptor, bytes.data() + done, bytes.size() - done);
    if (got <= 0) return std::nullopt;
    done += static_cast<size_t>(got);
  }
  return bytes;
}

void KernelFiles::write(const std::string& name, std::string_view bytes, uintmax_t limit) const {
  if (folder_.empty() || bytes.size() > largest_) return;
  std::error_code ignored;
  if (!fs::exists(folder_, ignored)) {
    fs::create_directories(folder_.parent_path(), ignored);
    ::mkdir(folder_.c_str(), 0700);
  }
  if (!is_trusted()) return;
  static std::atomic<uint64_t> written{0};
  const uint64_t number = written++;
  const fs::path path = path_of(name);
  const std::string beside = fmt::format("{}.{}.{}.part", path.string(), getpid(), number);
  bool whole = false;
  {
    const File file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.descriptor < 0) return;
    whole = write_all(file.descriptor, bytes);
  }
  if (!whole || ::rename(beside.c_str(), path.c_str()) != 0) ::unlink(beside.c_str());
  if (number % 64 == 0) trim(limit);
}

void KernelFiles::remove(const std::string& name) const { ::unlink(path_of(name).c_str()); }

void KernelFiles::trim(uintmax_t limit) const {
  struct Entry {
    fs::path path;
    fs::file_time_type time;
    uintmax_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error;
  uintmax_t total = 0;
  for (fs::directory_iterator next(folder_, error), end; !error && next != end; next.increment(error)) {
    std::error_code gone;
    const fs::path& path = next->path();
    const auto time = next->last_write_time(gone);
    if (gone) continue;
    if (path.extension() == ".part" && fs::file_time_type::clock::now() - time > std::chrono::hours(1))
      fs::remove(path, gone);
    if (path.extension() != kSuffix) continue;
    const uintmax_t bytes = next->file_size(gone);
    if (gone) continue;
    total += bytes;
    entries.push_back({path, time, bytes});
  }
  if (total <= limit) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return x.time < y.time; });
  for (const Entry& entry : entries) {
    if (total <= limit / 4 * 3) return;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

}  // namespace transom::backend
