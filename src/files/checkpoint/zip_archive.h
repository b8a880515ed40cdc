// SPDX-License-Identifier: Apache-2.0
// Reading zip archives as torch.save writes them: entries stored, or deflated; ZIP64 included.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace transom {

class ZipArchive {
 public:
  // Checks the central directory; every place it names lies inside `bytes`. Errors begin with `where`.
  ZipArchive(std::span<const std::byte> bytes, std::string where);

  // The contents of an entry: in place if it is stored, else inflated into `owner`. What is inflated is taken out of
  // `budget`, in bytes; an entry that claims more is refused. Without one, 64 MiB are the most.
  struct Entry {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // null: they lie in the archive
  };
  Entry read(const std::string& name, uint64_t* budget = nullptr) const;
  std::vector<std::string> names() const;
  bool holds(const std::string& name) const { return entries_.contains(name); }
  // The first name with this ending; empty where there is none.
  std::string find_ending(std::string_view ending) const;

 private:
  struct Place {
    uint64_t method, packed, size, header;
  };
  std::span<const std::byte> bytes_;
  std::string where_;
  std::map<std::string, Place> entries_;
};

}  // namespace transom
