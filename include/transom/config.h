// SPDX-License-Identifier: Apache-2.0
// config.json of a model: typed reads that say which field is wrong, its value, and what was expected. A null counts as
// absent.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// A value: copies are independent. Reading is safe from several threads, set_json() is not.
class Config {
 public:
  // Errors name the file, or `where`, and what is wrong with the text.
  static Config read(const std::filesystem::path& path);
  static Config parse(std::string_view text, const std::string& where);
  Config(const Config& other);
  Config& operator=(const Config& other);
  ~Config();

  bool has(std::string_view key) const;
  // Without `otherwise` a field that is absent is an error.
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
  // Any field as JSON text, on one line; "null" where absent.
  std::string get_json(std::string_view key) const;
  // Sets a field to a JSON value: set_json("hidden_act", "\"gelu\""), set_json("num_hidden_layers", "6").
  void set_json(std::string_view key, std::string_view json);

  std::vector<std::string> keys() const;
  const std::string& where() const { return where_; }  // the file, for errors
  // As Transformers writes it: keys sorted, two spaces, a final newline.
  std::string dump() const;

  // The fields as the sources of the library see them, through src/files/config/config.h.
  struct Fields;
  Config(std::unique_ptr<Fields> fields, std::string where);
  Fields& fields() { return *fields_; }
  const Fields& fields() const { return *fields_; }

 private:
  std::unique_ptr<Fields> fields_;
  std::string where_;
};

}  // namespace transom
