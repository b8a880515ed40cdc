// SPDX-License-Identifier: Apache-2.0
// Which server has seen the beginning of a text: the one whose prefix cache is likely to hold it still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace transom::route {

// Remembers the beginnings of so many bytes each by their hashes. Two texts of one hash cost a cache, never an answer.
class PrefixPlaces {
 public:
  explicit PrefixPlaces(size_t most = size_t{1} << 17) : most_(most) {}
  // The server that has seen the longest beginning of the text; none has.
  std::optional<size_t> find(std::string_view text) const;
  void remember(std::string_view text, size_t server);
  size_t size() const { return places_.size(); }

 private:
  static constexpr size_t kPiece = 128, kMostPieces = 4096;
  struct Place {
    size_t server;
    std::list<uint64_t>::iterator order;
  };
  size_t most_;
  std::list<uint64_t> order_;  // the one that was asked for last first
  std::unordered_map<uint64_t, Place> places_;
};

// What a prefix cache sees of a request's body, in the order of prompts: tools, system, messages, or the prompt. Empty
// where it is no JSON, or holds none of these.
struct RoutedBody {
  std::string model, beginning;
};
RoutedBody read_body(std::string_view body);

}  // namespace transom::route
