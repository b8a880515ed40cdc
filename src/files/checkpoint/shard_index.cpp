// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/shard_index.h"

#include <simdjson.h>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

using simdjson::dom::element;

bool is_plain_file_name(std::string_view name) {
  constexpr std::string_view kRefused("/\\\0", 3);
  return !name.empty() && name != "." && name != ".." && name.find_first_of(kRefused) == name.npos;
}

uint64_t number_or_zero(const simdjson::dom::object& object, const char* key) {
  uint64_t value = 0;
  return object[key].get(value) == simdjson::SUCCESS ? value : 0;
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, const std::string& where) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root))
    fail("{}: is not valid JSON: {}", where, simdjson::error_message(error));
  simdjson::dom::object object, map, metadata;
  if (root.get(object) != simdjson::SUCCESS || object["weight_map"].get(map) != simdjson::SUCCESS)
    fail("{}: expected an object weight_map", where);
  ShardIndex result;
  for (const auto [tensor, file] : map) {
    std::string_view name;
    if (file.get(name) != simdjson::SUCCESS)
      fail("{}: weight_map {}: expected the name of a file", where, quoted(tensor));
    if (!is_plain_file_name(name))
      fail("{}: weight_map {}: {} is no plain file name", where, quoted(tensor), quoted(name));
    if (!result.files.emplace(tensor, name).second) fail("{}: weight_map: {} comes twice", where, quoted(tensor));
  }
  if (object["metadata"].get(metadata) == simdjson::SUCCESS) {
    result.total_parameters = number_or_zero(metadata, "total_parameters");
    result.total_size = number_or_zero(metadata, "total_size");
  }
  return result;
}

std::string print_shard_index(const ShardIndex& index) {
  // The sorted kind of object: the other looks each key up from the front.
  const nlohmann::json json = {
      {"metadata", {{"total_parameters", index.total_parameters}, {"total_size", index.total_size}}},
      {"weight_map", index.files}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace transom
