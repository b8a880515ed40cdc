// SPDX-License-Identifier: Apache-2.0
#include "apps/route/prefix_places.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"

namespace transom::route {
namespace {

// FNV-1a, of the pieces before too.
uint64_t hash_behind(uint64_t hash, std::string_view piece) {
  for (const char byte : piece) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}
constexpr uint64_t kStart = 0xcbf29ce484222325;

}  // namespace

std::optional<size_t> PrefixPlaces::find(std::string_view text) const {
  std::optional<size_t> server;
  uint64_t hash = kStart;
  for (size_t i = 0; i < kMostPieces && (i + 1) * kPiece <= text.size(); ++i) {
    hash = hash_behind(hash, text.substr(i * kPiece, kPiece));
    const auto found = places_.find(hash);
    if (found == places_.end()) break;
    server = found->second.server;
  }
  return server;
}

void PrefixPlaces::remember(std::string_view text, size_t server) {
  uint64_t hash = kStart;
  for (size_t i = 0; i < kMostPieces && (i + 1) * kPiece <= text.size(); ++i) {
    hash = hash_behind(hash, text.substr(i * kPiece, kPiece));
    const auto found = places_.find(hash);
    if (found != places_.end()) {
      found->second.server = server;
      order_.splice(order_.begin(), order_, found->second.order);
      continue;
    }
    order_.push_front(hash);
    places_[hash] = {server, order_.begin()};
    if (places_.size() <= most_) continue;
    places_.erase(order_.back());
    order_.pop_back();
  }
}

RoutedBody read_body(std::string_view body) {
  RoutedBody read;
  Json json;
  try {
    json = parse_json(body, "request");
  } catch (const Error&) {  // the server says what is wrong with it
    return read;
  }
  if (!json.is_object()) return read;
  if (const auto model = json.find("model"); model != json.end() && model->is_string())
    read.model = model->get<std::string>();
  for (const char* name : {"tools", "system", "instructions", "messages", "prompt", "input", "inputs"})
    if (const auto part = json.find(name); part != json.end()) read.beginning += dump_json(*part);
  if (!read.beginning.empty()) read.beginning.insert(0, read.model + '\n');
  return read;
}

}  // namespace transom::route
