// SPDX-License-Identifier: Apache-2.0
#include "files/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "files/hub/digest.h"
#include "files/hub/names.h"

namespace transom {
namespace {

constexpr uint64_t kNotable = uint64_t{1} << 20;

// What to try again for; thrown out of the transfer.
struct TryAgain {
  std::string reason;
};

// The file blobs/<etag>.incomplete, open for adding to it.
class Incomplete {
 public:
  Incomplete(fs::path path, std::string where) : path_(std::move(path)), where_(std::move(where)) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) failed("cannot be opened");
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) failed("is no regular file");
    size_ = static_cast<uint64_t>(info.st_size);
  }
  ~Incomplete() { ::close(descriptor_); }
  Incomplete(const Incomplete&) = delete;
  Incomplete& operator=(const Incomplete&) = delete;

  uint64_t size() const { return size_; }

  void clear() {
    if (::ftruncate(descriptor_, 0) != 0) failed("cannot be emptied");
    size_ = 0;
  }

  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) failed("cannot be written");
      size_ += static_cast<uint64_t>(count);
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

  void require_space(uint64_t bytes) {
    struct statvfs disk {};
    if (::fstatvfs(descriptor_, &disk) != 0) return;
    const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (bytes > free)
      fail("{}: {} more bytes are needed and {} are free in {}: make room, or set HF_HUB_CACHE to another disk", where_,
           bytes, free, path_.parent_path().string());
  }

  void finish(const fs::path& blob) {
    if (::fsync(descriptor_) != 0) failed("cannot be synced to disk");
    if (::rename(path_.c_str(), blob.c_str()) != 0) failed("cannot be put in place");
  }

  void discard() { ::unlink(path_.c_str()); }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void failed(std::string_view what) const {
    const int reason = errno;
    const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
    fail("{}: {}: {}: {}{}", where_, path_.string(), what, std::strerror(reason),
         full ? "; make room and run again (what came is kept), or set HF_HUB_CACHE to another disk" : "");
  }
  fs::path path_;
  std::string where_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// The offset in "bytes 100-199/200"; nothing where it says none.
std::optional<uint64_t> range_begin(const HttpResponse& response) {
  const std::string* text = response.header("content-range");
  constexpr std::string_view kUnit = "bytes ";
  uint64_t begin = 0;
  if (!text || !text->starts_with(kUnit)) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data() + kUnit.size(), text->data() + text->size(), begin);
  if (error != std::errc() || end == text->data() + text->size() || *end != '-') return std::nullopt;
  return begin;
}

// Whether the contents are still those that were announced. Like is compared with like: a storage or a mirror may have
// etags of its own.
void check_same_file(const HttpResponse& response, const RemoteFile& file, const std::string& where) {
  if (response.foreign && !file.linked) return;
  const std::string* const etag = response.header(file.linked ? "x-linked-etag" : "etag");
  if (etag && etag_of_header(*etag, where) != file.etag) throw TryAgain{"the file changed on the server meanwhile"};
}

void transfer(HttpClient& http, Incomplete& incomplete, const RemoteFile& file, const HubSettings& settings,
              const std::string& name, const std::string& where, DownloadResult& result) {
  const uint64_t from = incomplete.size();
  bool begun = false;
  const auto sink = [&](const HttpResponse& response, std::string_view bytes) {
    if (!begun) {
      begun = true;
      check_same_file(response, file, where);
      if (from > 0 && response.status == 206 && range_begin(response) != from) {
        incomplete.clear();
        throw TryAgain{"the server answered with another part of the file than was asked for"};
      }
      if (response.status == 200) incomplete.clear();  // it sends the whole file
    }
    if (file.size && incomplete.size() + bytes.size() > *file.size) {
      incomplete.clear();
      throw TryAgain{fmt::format("the server sends more than the {} bytes that it announced", *file.size)};
    }
    incomplete.append(bytes);
    if (settings.progress)
      settings.progress(name, static_cast<int64_t>(incomplete.size()), static_cast<int64_t>(file.size.value_or(0)));
  };
  const HttpResponse response = http.get_file(file.url, from, sink);
  result.retry_after = static_cast<int64_t>(std::min<uint64_t>(response.number("retry-after").value_or(0), 3600));
  if (response.status == 416) {
    incomplete.clear();
    throw TryAgain{"the server has no such part of the file"};
  }
  if (response.transient()) throw TryAgain{response.summary()};
  if (response.status != 200 && response.status != 206)
    fail("{}: the download is refused: {}; set HF_TOKEN to a token that may read it, or try again later", where,
         response.summary());
  if (!begun && response.status == 200) incomplete.clear();  // the whole file, and it is empty
  if (file.size && incomplete.size() != *file.size)
    throw TryAgain{fmt::format("expected {} bytes, found {}", *file.size, incomplete.size())};
}

// What the file's name says of its contents: SHA-256 for large files, git's SHA-1 for others. Servers with other names
// cannot be checked.
std::string wrong_hash(const fs::path& path, const std::string& etag) {
  if (!is_commit(etag)) return {};
  const bool large = etag.size() == 64;
  const std::string found = large ? sha256_of(path) : git_blob_sha1_of(path);
  if (found == etag) return {};
  return fmt::format("expected the {} {}, found {}", large ? "SHA-256" : "SHA-1 (of git)", etag, found);
}

}  // namespace

DownloadResult download_blob(HttpClient& http, const ModelCache& cache, const RemoteFile& file,
                             const HubSettings& settings, const std::string& name, const std::string& where) {
  const fs::path blob = cache.blob(file.etag);
  const auto is_there = [&] {
    std::error_code none;
    return fs::is_regular_file(blob, none);
  };
  if (is_there()) return {};
  cache.prepare();
  const FileLock lock(cache.lock_file(file.etag), where + ": waiting for another process that downloads it");
  if (is_there()) return {};

  DownloadResult result;
  fs::path partial = blob;
  partial += ".incomplete";
  Incomplete incomplete(partial, where);
  if (file.size && incomplete.size() > *file.size) incomplete.clear();
  const uint64_t before = incomplete.size();
  try {
    if (file.size) incomplete.require_space(*file.size - before);
    if (!file.size || before < *file.size) transfer(http, incomplete, file, settings, name, where, result);
  } catch (const TryAgain& again) {
    result.failure = again.reason;
    result.progressed = incomplete.size() >= before + kNotable;
    return result;
  }
  if (std::string wrong = wrong_hash(incomplete.path(), file.etag); !wrong.empty()) {
    incomplete.discard();
    result.failure = std::move(wrong);
    result.damaged = true;
    return result;
  }
  incomplete.finish(blob);
  return result;
}

}  // namespace transom
