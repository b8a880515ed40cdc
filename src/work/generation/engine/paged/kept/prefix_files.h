// SPDX-License-Identifier: Apache-2.0
// Blocks of the KV cache in files, by what they hold: the weights that made them, and all tokens up to their end. They
// outlive the process. Files are written by a thread of their own and read when a text asks for them. A file that is
// not whole, or not what its name says, is told in the log and removed; others' files are left alone.
//
//   DIRECTORY/<weights: 32 digits>/<text: 64 digits>.block     magic, weights, text, length, digest, numbers
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/files/files.h"
#include "transom/generation.h"

namespace transom {

class PrefixFiles {
 public:
  // `weights` is the fingerprint of what computes them (prefix_fingerprint.h). A block has `block_bytes` bytes; the
  // files of the directory have at most `limit` in all, those of other weights too.
  PrefixFiles(fs::path directory, std::string weights, int64_t block_bytes, int64_t limit);
  // Writes what waits.
  ~PrefixFiles();
  PrefixFiles(const PrefixFiles&) = delete;
  PrefixFiles& operator=(const PrefixFiles&) = delete;

  // Of a text that ends with a block: a digest of the key of the text before it (the first one has ""), and what fills
  // the block. Two texts with one key are not known to anybody (SHA-256).
  static std::string key_of(const std::string& before, const TokenIds& block);

  bool has(const std::string& key) const;
  std::optional<std::vector<std::byte>> read(const std::string& key);
  // Takes it, to be written soon. False where so much waits to be written already that this is dropped.
  bool write(const std::string& key, std::vector<std::byte> block);
  void finish();  // until nothing waits

 private:
  fs::path path_of(const std::string& key) const { return folder_ / (key + ".block"); }
  std::string head_of(const std::string& key, std::span<const std::byte> block) const;
  void work();
  void store(const std::string& key, const std::vector<std::byte>& block);
  void make_room(int64_t bytes);

  const fs::path directory_, folder_;
  const std::string weights_;
  const int64_t block_bytes_, limit_;
  int64_t stored_ = 0;  // of the writing thread: bytes in the directory, as far as is known
  mutable std::mutex mutex_;
  std::condition_variable news_, idle_;
  std::deque<std::pair<std::string, std::vector<std::byte>>> waiting_;
  std::unordered_set<std::string> taken_;  // that wait or are being written
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace transom
