// SPDX-License-Identifier: Apache-2.0
// A JSON file of sentence-transformers, of which nothing is passed over: a key is asked for, is known to change
// nothing, or is refused by name.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>

#include "base/json/json.h"

namespace transom {

class ModuleFile {
 public:
  // Without the file there are no keys. Refuses what is no object.
  explicit ModuleFile(const std::filesystem::path& file);
  // An object within a file, which `where` names.
  ModuleFile(Json object, std::string where);

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const { return object_.contains(key); }
  // Null where there is no such key. The others refuse values of another type; null is taken as absent.
  const Json& get(const std::string& key);
  bool flag(const std::string& key, bool otherwise);
  std::optional<int64_t> count(const std::string& key);  // above 0
  std::string text(const std::string& key, const std::string& otherwise);
  // An object of its own; empty where there is none.
  ModuleFile object(const std::string& key);
  void without_effect(std::initializer_list<const char*> keys);
  // Refuses a value that is not the one which changes nothing; null is always that.
  void only(const std::string& key, const Json& harmless);
  // Refuses the keys that nobody asked for.
  void finish() const;

 private:
  Json object_;
  std::string where_;
  std::set<std::string> known_;
};

}  // namespace transom
