// SPDX-License-Identifier: Apache-2.0
#include "base/files/files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files/container_files.h"
#include "base/files/paths.h"
#include "base/numbers/fnv.h"

namespace transom {
namespace {

constexpr std::string_view kTemporary = ".tmp";

// What another machine or container was writing counts as abandoned when it was not touched for so long.
constexpr time_t kForeignPatience = 7 * 24 * 3600;

std::string small_file(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// Where process numbers mean what they mean here: this boot of this machine, and in it this namespace of processes.
// Containers that share a directory have numbers of their own. 16 hexadecimal digits.
std::string own_place() {
  // Without either nobody else can be told to be here.
  static const std::string lone = fmt::format("{}-{}", std::random_device()(), std::random_device()());
  std::string text = small_file("/proc/sys/kernel/random/boot_id");
  char target[64] = {};
  const ssize_t length = ::readlink("/proc/self/ns/pid", target, sizeof target);
  if (text.empty() || length <= 0) text = lone;
  else text.append(target, static_cast<size_t>(length));
  return fmt::format("{:016x}", fnv1a(text));
}

// When a process began, in clock ticks since the boot (proc_pid_stat(5)); 0 where nobody says.
uint64_t start_of(pid_t process) {
  const std::string text = small_file(fmt::format("/proc/{}/stat", process).c_str());
  const size_t name_end = text.rfind(')');  // the name may hold spaces
  if (name_end == text.npos) return 0;
  constexpr int kStartAfterName = 20;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int index = 0; index < kStartAfterName; ++index) fields >> field;
  uint64_t start = 0;
  std::from_chars(field.data(), field.data() + field.size(), start);
  return start;
}

// Whether a process of this place is no more. Its number may have gone to another, which began at another time.
bool has_ended(pid_t process, uint64_t start) {
  if (::kill(process, 0) != 0 && errno == ESRCH) return true;
  const uint64_t now = start_of(process);
  return now != 0 && start != 0 && now != start;
}

// Whether nobody writes a file of another place any more, as far as can be told: it is old, and not locked.
bool is_left_behind(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || ::time(nullptr) - info.st_mtime < kForeignPatience) return false;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  return free;
}

}  // namespace

std::optional<std::string> abandoned_destination(std::string_view path) {
  // From behind: ".tmp", the count, the start of the process, its number, the place.
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.ends_with(kTemporary)) return std::nullopt;
  name.remove_suffix(kTemporary.size());
  uint64_t count = 0, start = 0, process = 0;
  for (uint64_t* part : {&count, &start, &process}) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos || dot == 0) return std::nullopt;
    const auto read = std::from_chars(name.data() + dot + 1, name.data() + name.size(), *part);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) return std::nullopt;
    name = name.substr(0, dot);
  }
  const size_t dot = name.rfind('.');
  if (process == 0 || process > static_cast<uint64_t>(std::numeric_limits<pid_t>::max()) || dot == name.npos ||
      dot == 0)
    return std::nullopt;
  const std::string_view place = name.substr(dot + 1);
  if (place.size() != 16 || place.find_first_not_of("0123456789abcdef") != place.npos) return std::nullopt;
  const bool ended =
      place == own_place() ? has_ended(static_cast<pid_t>(process), start) : is_left_behind(std::string(path));
  if (!ended) return std::nullopt;
  return std::string(name.substr(0, dot));
}

namespace {

constexpr size_t kWriteBuffer = size_t{1} << 20;

// An open descriptor that closes itself.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

Descriptor open_for_reading(const fs::path& path, struct stat& info) {
  Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.value < 0) fail("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  if (::fstat(descriptor.value, &info) != 0) fail("{}: cannot be examined: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("{}: expected a regular file", path.string());
  return Descriptor{std::exchange(descriptor.value, -1)};
}

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Makes a rename in the directory last. File systems that cannot sync a directory need not.
void sync_directory(const fs::path& directory) {
  const Descriptor descriptor{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (descriptor.value >= 0) ::fsync(descriptor.value);
}

// "<name>.<place>.<process>.<start>.<count>.tmp": each write has its own, and the process tells whether somebody still
// writes it.
fs::path temporary_of(const fs::path& destination) {
  static std::atomic<uint64_t> count = 0;
  fs::path result = destination;
  const pid_t process = ::getpid();  // asked for each time: a fork has another
  result += fmt::format(".{}.{}.{}.{}{}", own_place(), process, start_of(process), count++, kTemporary);
  return result;
}

// Removes what processes that are no more were writing to the same destination.
void remove_abandoned(const fs::path& destination) {
  for (const fs::path& entry : entries_of(directory_of(destination)))
    if (abandoned_destination(entry.string()) == destination.filename().string()) ::unlink(entry.c_str());
}

// Where files are mapped: the end of each by its beginning.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const std::byte*> ends;

  static Mappings& instance() {
    static auto* mappings = new Mappings;  // files may be closed after statics are gone
    return *mappings;
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  struct stat info {};
  const Descriptor descriptor = open_for_reading(path, info);
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ != 0) {
    void* data = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
    if (data == MAP_FAILED) fail("{}: cannot be mapped into memory: {}", path.string(), std::strerror(errno));
    file->data_ = static_cast<const std::byte*>(data);
    Mappings& mappings = Mappings::instance();
    std::lock_guard lock(mappings.mutex);
    mappings.ends.emplace(file->data_, file->data_ + file->size_);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  {
    Mappings& mappings = Mappings::instance();
    std::lock_guard lock(mappings.mutex);
    mappings.ends.erase(data_);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void release_mapped(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  Mappings& mappings = Mappings::instance();
  std::lock_guard lock(mappings.mutex);
  const auto behind = mappings.ends.upper_bound(bytes.data());
  if (behind == mappings.ends.begin() || std::prev(behind)->second < bytes.data() + bytes.size()) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_file(const fs::path& path, uint64_t limit) {
  if (std::optional<std::string> part = container_part(path)) return *std::move(part);
  struct stat info {};
  const Descriptor descriptor = open_for_reading(path, info);
  if (static_cast<uint64_t>(info.st_size) > limit)
    fail("{}: has {} bytes, more than the {} that are allowed here", path.string(), info.st_size, limit);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(descriptor.value, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("{}: cannot be read: {}", path.string(), std::strerror(errno));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

AtomicFile::AtomicFile(fs::path destination) : destination_(std::move(destination)) {
  struct stat info {};
  // Else a whole file would be written before the rename finds out.
  const bool exists = ::stat(destination_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("{}: cannot be written: it is a directory", destination_.string());
  // A device or a pipe is written as it is: a rename would put a file in its place.
  if (destination_.string().starts_with("/dev/") || (exists && !S_ISREG(info.st_mode))) {
    descriptor_ = ::open(destination_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    remove_abandoned(destination_);
    temporary_ = temporary_of(destination_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX | LOCK_NB);  // for those who cannot ask for this process
  }
  if (descriptor_ < 0) fail_with_errno("cannot be created");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
}

void AtomicFile::fail_with_errno(std::string_view action) {
  fail("{}: {}: {}", destination_.string(), action, std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (bytes.size() >= kWriteBuffer) {
    flush();
    write_now(bytes);
    return;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (buffer_.size() >= kWriteBuffer) flush();
}

void AtomicFile::write_now(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::flush() {
  write_now(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (temporary_.empty()) {
    if (::close(std::exchange(descriptor_, -1)) != 0) fail_with_errno("cannot be written");
    return;
  }
  if (::fsync(descriptor_) != 0) fail_with_errno("cannot be synced to disk");
  if (::close(std::exchange(descriptor_, -1)) != 0 || ::rename(temporary_.c_str(), destination_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail_with_errno("cannot be put in place");
  }
  sync_directory(directory_of(destination_));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

namespace {

[[noreturn]] void fail_with(const fs::path& path, std::string_view action, const std::error_code& error) {
  fail("{}: {}: {}", path.string(), action, error.message());
}

// The name that a directory has while it is removed.
fs::path removed_name(const fs::path& directory) {
  return directory_of(directory) / ("tmp-" + directory.filename().string() + ".old");
}

}  // namespace

void remove_directory(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) return;
  const fs::path removed = removed_name(directory);
  fs::remove_all(removed, error);
  if (!error) fs::rename(directory, removed, error);
  if (!error) fs::remove_all(removed, error);
  if (error) fail_with(directory, "cannot be removed", error);
}

void replace_directory(const fs::path& temporary, const fs::path& destination) {
  std::error_code error;
  sync_directory(temporary);
  if (fs::exists(destination, error)) {
    // Swapped in one step where the file system can; else there is no directory of this name for a moment.
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, destination.c_str(), RENAME_EXCHANGE) == 0) {
      sync_directory(directory_of(destination));
      fs::remove_all(temporary, error);
      if (error) fail_with(temporary, "cannot be removed", error);
      return;
    }
    remove_directory(destination);
  }
  fs::rename(temporary, destination, error);
  if (error) fail_with(destination, "cannot be put in place", error);
  sync_directory(directory_of(destination));
}

}  // namespace transom
