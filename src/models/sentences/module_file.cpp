// SPDX-License-Identifier: Apache-2.0
#include "models/sentences/module_file.h"

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {

ModuleFile::ModuleFile(const std::filesystem::path& file)
    : ModuleFile(path_exists(file) ? read_json(file) : Json::object(), file.string()) {}

ModuleFile::ModuleFile(Json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {
  if (object_.is_null()) object_ = Json::object();
  if (!object_.is_object()) fail("{}: expected an object, found {}", where_, quoted(dump_json(object_)));
}

const Json& ModuleFile::get(const std::string& key) {
  static const Json none;
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() ? none : *found;
}

bool ModuleFile::flag(const std::string& key, bool otherwise) {
  const Json& value = get(key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail("{}: {}: expected true or false, found {}", where_, key, quoted(dump_json(value)));
  return value.get<bool>();
}

std::optional<int64_t> ModuleFile::count(const std::string& key) {
  const Json& value = get(key);
  if (value.is_null()) return std::nullopt;
  const bool whole = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!whole || value.get<int64_t>() < 1)
    fail("{}: {}: expected a whole number above 0, found {}", where_, key, quoted(dump_json(value)));
  return value.get<int64_t>();
}

std::string ModuleFile::text(const std::string& key, const std::string& otherwise) {
  const Json& value = get(key);
  if (value.is_null()) return otherwise;
  if (!value.is_string()) fail("{}: {}: expected a text, found {}", where_, key, quoted(dump_json(value)));
  return value.get<std::string>();
}

ModuleFile ModuleFile::object(const std::string& key) { return {get(key), where_ + ": " + key}; }

void ModuleFile::without_effect(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }

void ModuleFile::only(const std::string& key, const Json& harmless) {
  const Json& value = get(key);
  if (!value.is_null() && value != harmless)
    fail(ErrorKind::kUnsupported, "{}: {}: {} is not supported; only {} is", where_, key, quoted(dump_json(value)),
         harmless.is_null() ? "none" : dump_json(harmless));
}

void ModuleFile::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key))
      fail(ErrorKind::kUnsupported, "{}: {}: {} is not supported: what it asks for is not known here", where_,
           quoted(key), quoted(dump_json(value)));
}

}  // namespace transom
