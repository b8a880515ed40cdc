// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/binary_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace transom::gpu {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic = "transom gpu kernel 1\n";

uint64_t hash(std::string_view bytes, uint64_t seed) {  // FNV-1a, with the bits mixed at the end
  uint64_t h = 0xCBF29CE484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  h ^= h >> 32;
  return h * 0xD6E8FEB86659FD93u;
}

void put(std::string& file, std::string_view part) {
  const uint64_t size = part.size();
  file.append(reinterpret_cast<const char*>(&size), sizeof size);
  file.append(part);
}
std::optional<std::string_view> take(std::string_view& rest) {
  uint64_t size = 0;
  if (rest.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, rest.data(), sizeof size);
  rest.remove_prefix(sizeof size);
  if (size > rest.size()) return std::nullopt;
  const std::string_view part = rest.substr(0, size);
  rest.remove_prefix(size);
  return part;
}

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

std::optional<std::string> read_file(const fs::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      !ours_alone(status) || status.st_size < 0 || static_cast<size_t>(status.st_size) > BinaryCache::kLargest)
    return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::read(file.descriptor, bytes.data() + done, bytes.size() - done);
    if (got <= 0) return std::nullopt;
    done += static_cast<size_t>(got);
  }
  return bytes;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

BinaryCache BinaryCache::from_environment() {
  const std::string named = environment("TRANSOM_KERNEL_CACHE");
  if (named == "off" || named == "0") return BinaryCache({});
  if (!named.empty()) return BinaryCache(fs::path(named) / "gpu");
  const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (cache.starts_with('/')) return BinaryCache(fs::path(cache) / "transom" / "kernels" / "gpu");
  if (home.starts_with('/')) return BinaryCache(fs::path(home) / ".cache" / "transom" / "kernels" / "gpu");
  return BinaryCache({});
}

fs::path BinaryCache::path_of(std::string_view target, std::string_view text) const {
  return folder_ / fmt::format("{:016x}{:016x}.kernel", hash(target, 1) ^ hash(text, 2), hash(text, hash(target, 3)));
}

std::optional<std::string> BinaryCache::read(std::string_view target, std::string_view text) const {
  struct stat status;
  if (folder_.empty() || ::stat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || !ours_alone(status))
    return std::nullopt;
  const fs::path path = path_of(target, text);
  const std::optional<std::string> file = read_file(path);
  if (!file) return std::nullopt;
  std::string_view rest = *file;
  if (rest.starts_with(kMagic)) {
    rest.remove_prefix(kMagic.size());
    const auto made_for = take(rest), made_from = take(rest), code = take(rest), sum = take(rest);
    if (sum && rest.empty() && *made_for == target && *made_from == text && *sum == fmt::format("{:x}", hash(*code, 4)))
      return std::string(*code);
  }
  ::unlink(path.c_str());
  return std::nullopt;
}

void BinaryCache::write(std::string_view target, std::string_view text, std::string_view code) const {
  if (folder_.empty() || code.size() + text.size() > kLargest / 2) return;
  std::error_code ignored;
  fs::create_directories(folder_.parent_path(), ignored);
  ::mkdir(folder_.c_str(), 0700);
  struct stat status;
  if (::stat(folder_.c_str(), &status) != 0 || !ours_alone(status)) return;
  std::string file(kMagic);
  put(file, target), put(file, text), put(file, code), put(file, fmt::format("{:x}", hash(code, 4)));
  static std::atomic<uint64_t> written{0};
  const uint64_t number = written++;
  const fs::path path = path_of(target, text);
  const std::string beside = fmt::format("{}.{}.{}.part", path.string(), getpid(), number);
  bool whole = true;
  {
    const File out(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (out.descriptor < 0) return;
    for (size_t done = 0; whole && done < file.size();) {
      const ssize_t put_now = ::write(out.descriptor, file.data() + done, file.size() - done);
      whole = put_now > 0;
      if (whole) done += static_cast<size_t>(put_now);
    }
  }
  if (!whole || ::rename(beside.c_str(), path.c_str()) != 0) ::unlink(beside.c_str());
  if (number % 64 == 0) trim();
}

void BinaryCache::trim() const {
  std::vector<fs::directory_entry> entries;
  std::error_code error, gone;
  uintmax_t total = 0;
  for (fs::directory_iterator next(folder_, error), end; !error && next != end; next.increment(error)) {
    const uintmax_t bytes = next->file_size(gone);
    if (gone) continue;
    total += bytes;
    entries.push_back(*next);
  }
  if (total <= kLimit) return;
  std::sort(entries.begin(), entries.end(), [](const auto& x, const auto& y) {
    std::error_code ignored;
    return x.last_write_time(ignored) < y.last_write_time(ignored);
  });
  for (const fs::directory_entry& entry : entries) {
    if (total <= kLimit / 4 * 3) return;
    total -= entry.file_size(gone);
    fs::remove(entry.path(), error);
  }
}

}  // namespace transom::gpu
