// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transom::serve {

struct HttpRequest;

// The keys that a server takes, kept as digests. A comparison looks at every byte of every one, whatever is given, so
// that its time says nothing about them.
class KeyCheck {
 public:
  explicit KeyCheck(const std::vector<std::string>& keys);
  bool required() const { return !digests_.empty(); }
  // Of one of the keys: the same in every process that takes it, whatever others there are, and not to be turned back.
  std::string name_of(size_t key) const;
  // Which of the keys it is, from 0; nothing for another.
  std::optional<size_t> find(std::string_view key) const;
  // Of "Bearer KEY" in Authorization, or of x-api-key.
  std::optional<size_t> find_in(const HttpRequest& head) const;
  // Of "Bearer KEY".
  std::optional<size_t> find_in_header(const std::string* authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view key);
  std::vector<Digest> digests_;
};

}  // namespace transom::serve
