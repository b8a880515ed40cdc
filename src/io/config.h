// SPDX-License-Identifier: Apache-2.0
// config.json: typed reads that say which field is wrong, its value, and what was expected. A null counts as absent.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace transom {

class Config {
 public:
  static Config read(const std::filesystem::path& path);
  static Config parse(std::string_view text, const std::string& where);
  Config(Json json, std::string where);
  Config(const Config& other);
  Config& operator=(const Config& other);
  ~Config();

  bool has(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  int64_t get_int(std::string_view key, int64_t otherwise) const;
  double get_float(std::string_view key) const;
  double get_float(std::string_view key, double otherwise) const;
  bool get_bool(std::string_view key) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  std::string get_string(std::string_view key) const;
  std::string get_string(std::string_view key, const std::string& otherwise) const;
  std::vector<std::string> get_strings(std::string_view key) const;    // empty where absent
  std::map<int64_t, std::string> get_map(std::string_view key) const;  // {"0": "a", ...}; empty where absent
  std::vector<int64_t> get_ints(std::string_view key, std::vector<int64_t> otherwise = {}) const;
  // (height, width): one number for both, or a list of two.
  std::array<int64_t, 2> get_pair(std::string_view key, int64_t otherwise) const;
  Config get_object(std::string_view key) const;  // a part of its own, such as text_config; empty where absent

  std::vector<std::string> keys() const;
  void set(std::string_view key, Json value);
  const Json& json() const { return *json_; }
  const std::string& where() const { return where_; }
  // As Transformers writes it: keys sorted, two spaces, a final newline.
  std::string dump() const;

 private:
  const Json* find(std::string_view key) const;
  template <typename T>
  T checked(std::string_view key, bool fits, const Json& value, std::string_view expected) const;
  std::unique_ptr<Json> json_;
  std::string where_;
};

}  // namespace transom
