// SPDX-License-Identifier: Apache-2.0
// Files: mapping, whole reads with a size limit, and writes that appear complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace transom {

namespace fs = std::filesystem;

// A file mapped read-only. Shared by everything that points into it.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const fs::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const fs::path& path() const { return path_; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  fs::path path_;
};

// Lets go of the pages that lie wholly within `bytes`, if a MappedFile holds them: they are read from the file again
// when somebody looks at them. Other memory stays as it is.
void release_mapped(std::span<const std::byte> bytes);

// The whole file; an error that names it if it is missing, unreadable or larger than `limit` bytes.
std::string read_file(const fs::path& path, uint64_t limit = uint64_t{1} << 31);

// A file written beside its destination, synced, and renamed on commit(); removed if commit() is never reached, so that
// a reader sees the old file or the whole new one, even after a loss of power. Errors (a full disk) name the
// destination. What a killed process left beside the same destination is removed. A device or a pipe is written as it
// is.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path destination);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void commit();

 private:
  void fail_with_errno(std::string_view action);
  void write_now(std::span<const std::byte> bytes);
  void flush();
  fs::path destination_, temporary_;
  int descriptor_ = -1;
  std::string buffer_;  // small writes; large ones go past it
};

void write_file(const fs::path& path, std::string_view text);

// The destination's name of the file at this path, if AtomicFile was writing it in a process that is no more.
std::optional<std::string> abandoned_destination(std::string_view path);

// Puts a finished directory in the place of another, or of nothing, at once: whoever looks sees the old one or the new
// one. `temporary` is gone afterwards.
void replace_directory(const fs::path& temporary, const fs::path& destination);
// Removes a directory so that a half-removed one never bears its name: it is renamed to "tmp-<name>" first.
void remove_directory(const fs::path& directory);

}  // namespace transom
