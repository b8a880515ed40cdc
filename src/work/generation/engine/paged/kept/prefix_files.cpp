// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/kept/prefix_files.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "files/hub/digest.h"

namespace transom {
namespace {

constexpr std::string_view kMagic = "transom prefix block 1\n";
constexpr size_t kDigits = 64, kWeights = 32;
// Bytes that may wait to be written: a disk that is slower than texts must not fill the memory.
constexpr int64_t kMostWaiting = int64_t{1} << 28;

bool is_block(const fs::path& path) { return path.extension() == ".block" && is_digest(path.stem().string(), kDigits); }

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct KeptBlock {
  fs::path path;
  int64_t bytes;
  fs::file_time_type used;
};

// Nothing but what this class has written, by its names: folders of other things are never looked into.
std::vector<KeptBlock> kept_blocks(const fs::path& directory) {
  std::vector<KeptBlock> kept;
  std::error_code ignored;
  for (const fs::path& folder : list_directory(directory)) {
    if (!is_digest(folder.filename().string(), kWeights) || !fs::is_directory(folder, ignored)) continue;
    for (const fs::path& path : list_directory(folder)) {
      if (!is_block(path) || fs::symlink_status(path, ignored).type() != fs::file_type::regular) continue;
      const auto bytes = fs::file_size(path, ignored);
      if (ignored) continue;  // another process has removed it
      kept.push_back({path, static_cast<int64_t>(bytes), fs::last_write_time(path, ignored)});
    }
  }
  return kept;
}

int64_t bytes_of(const std::vector<KeptBlock>& kept) {
  int64_t sum = 0;
  for (const KeptBlock& block : kept) sum += block.bytes;
  return sum;
}

}  // namespace

PrefixFiles::PrefixFiles(fs::path directory, std::string weights, int64_t block_bytes, int64_t limit)
    : directory_(std::move(directory)),
      folder_(directory_ / weights),
      weights_(std::move(weights)),
      block_bytes_(block_bytes),
      limit_(limit) {
  if (limit_ < block_bytes_)
    fail("prefix_cache_disk_bytes = {}: a block of this model takes {}; give more", limit_, block_bytes_);
  make_directories(folder_);
  // Keys of a text say what it says: they are for nobody else.
  std::error_code ignored;
  fs::permissions(folder_, fs::perms::owner_all, ignored);
  const std::vector<KeptBlock> kept = kept_blocks(directory_);
  stored_ = bytes_of(kept);
  const auto own =
      std::ranges::count_if(kept, [&](const KeptBlock& block) { return block.path.parent_path() == folder_; });
  log(LogLevel::kInfo,
      fmt::format("prefix cache {}: {} blocks of this model, {} of others, {} of {} bytes", quoted(directory_.string()),
                  own, static_cast<int64_t>(kept.size()) - own, stored_, limit_));
  thread_ = std::thread([this] { work(); });
}

PrefixFiles::~PrefixFiles() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  news_.notify_all();
  thread_.join();
}

std::string PrefixFiles::key_of(const std::string& before, const TokenIds& block) {
  return sha256_of_text(before + ' ' + std::string(text_of(std::as_bytes(std::span(block)))));
}

std::string PrefixFiles::head_of(const std::string& key, std::span<const std::byte> block) const {
  return fmt::format("{}{} {} {} {}\n", kMagic, weights_, key, block.size(), sha256_of_text(text_of(block)));
}

bool PrefixFiles::has(const std::string& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (taken_.contains(key)) return true;
  }
  std::error_code ignored;
  return fs::is_regular_file(path_of(key), ignored);
}

std::optional<std::vector<std::byte>> PrefixFiles::read(const std::string& key) {
  const fs::path path = path_of(key);
  std::error_code ignored;
  // Before it is opened: a pipe of this name would be waited for.
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const auto size = static_cast<size_t>(block_bytes_);
    const std::string text = read_file(path, size + 4 * kDigits + kMagic.size());
    const size_t head = text.size() < size ? 0 : text.size() - size;
    std::vector<std::byte> block(size);
    if (head > 0) std::memcpy(block.data(), text.data() + head, size);
    if (head == 0 || text.compare(0, head, head_of(key, block)) != 0)
      fail("expected a block of {} bytes of the prefix cache with its digest, found {} bytes of something else", size,
           text.size());
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // used now: others go before it
    return block;
  } catch (const std::exception& error) {
    log(LogLevel::kWarning,
        fmt::format("prefix cache: {} is not used, and removed: {}", quoted(path.string()), error.what()));
    fs::remove(path, ignored);
    return std::nullopt;
  }
}

bool PrefixFiles::write(const std::string& key, std::vector<std::byte> block) {
  {
    const std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(waiting_.size() + 1) * block_bytes_ > std::max(kMostWaiting, block_bytes_)) return false;
    if (!taken_.insert(key).second) return true;
    waiting_.emplace_back(key, std::move(block));
  }
  news_.notify_all();
  return true;
}

void PrefixFiles::finish() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return taken_.empty(); });
}

void PrefixFiles::work() {
  bool failed = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const auto [key, block] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      store(key, block);
      failed = false;
    } catch (const std::exception& error) {  // a full disk: once, not for each block
      if (!failed) log(LogLevel::kWarning, fmt::format("prefix cache: nothing is kept: {}", error.what()));
      failed = true;
    }
    lock.lock();
    taken_.erase(key);
    if (taken_.empty()) idle_.notify_all();
  }
}

void PrefixFiles::store(const std::string& key, const std::vector<std::byte>& block) {
  const std::string head = head_of(key, block);
  const auto bytes = static_cast<int64_t>(head.size() + block.size());
  make_room(bytes);
  AtomicFile file(path_of(key));
  file.write(head);
  file.write(std::span<const std::byte>(block));
  file.commit();
  stored_ += bytes;
}

// A tenth at once, so that the directory is gone through seldom; and then it is known what other processes did there.
void PrefixFiles::make_room(int64_t bytes) {
  if (stored_ + bytes <= limit_) return;
  std::vector<KeptBlock> kept = kept_blocks(directory_);
  stored_ = bytes_of(kept);
  if (stored_ + bytes <= limit_) return;
  std::ranges::sort(kept, {}, &KeptBlock::used);
  const int64_t goal = std::max<int64_t>(limit_ - limit_ / 10 - bytes, 0);
  for (const KeptBlock& block : kept) {
    if (stored_ <= goal) break;
    std::error_code ignored;
    fs::remove(block.path, ignored);
    stored_ -= block.bytes;
  }
}

}  // namespace transom
