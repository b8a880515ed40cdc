// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace transom {
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
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const fs::path& path, uint64_t limit) {
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
  temporary_ = destination_;
  temporary_ += fmt::format(".{}.tmp", ::getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_with_errno("cannot be created");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::fail_with_errno(std::string_view action) {
  fail("{}: {}: {}", destination_.string(), action, std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (buffer_.size() >= kWriteBuffer) flush();
}

void AtomicFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno("cannot be written");
    done += static_cast<size_t>(count);
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  if (::fsync(descriptor_) != 0) fail_with_errno("cannot be synced to disk");
  if (::close(std::exchange(descriptor_, -1)) != 0 || ::rename(temporary_.c_str(), destination_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail_with_errno("cannot be put in place");
  }
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace transom
