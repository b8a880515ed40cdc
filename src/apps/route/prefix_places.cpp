// SPDX-License-Identifier: Apache-2.0
#include "apps/route/prefix_places.h"

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/fnv.h"

namespace transom::route {
namespace {

// Calls visit(hash) with the hash of each beginning of whole pieces, the shortest first, until it says false.
template <typename Visit>
void for_each_beginning(std::string_view text, size_t piece, size_t most, Visit&& visit) {
  uint64_t hash = kFnvOffset;
  for (size_t i = 0; i < most && (i + 1) * piece <= text.size(); ++i) {
    hash = fnv1a(text.substr(i * piece, piece), hash);
    if (!visit(hash)) return;
  }
}

}  // namespace

std::optional<size_t> PrefixPlaces::find(std::string_view text) const {
  std::optional<size_t> server;
  for_each_beginning(text, kPiece, kMostPieces, [&](uint64_t hash) {
    const auto found = places_.find(hash);
    if (found == places_.end()) return false;
    server = found->second.server;
    return true;
  });
  return server;
}

void PrefixPlaces::remember(std::string_view text, size_t server) {
  for_each_beginning(text, kPiece, kMostPieces, [&](uint64_t hash) {
    const auto found = places_.find(hash);
    if (found != places_.end()) {
      found->second.server = server;
      order_.splice(order_.begin(), order_, found->second.order);
      return true;
    }
    order_.push_front(hash);
    places_[hash] = {server, order_.begin()};
    if (places_.size() > most_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    return true;
  });
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
