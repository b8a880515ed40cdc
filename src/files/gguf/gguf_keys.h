// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "files/gguf/gguf_file.h"

namespace transom {

// Reads keys below the architecture's name.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file) : file(file), prefix_(file.get_string("general.architecture") + ".") {}
  bool has(const std::string& key) const { return file.has(prefix_ + key); }
  int64_t integer(const std::string& key, std::optional<int64_t> otherwise = std::nullopt) const {
    if (!has(key) && otherwise) return *otherwise;
    const std::vector<int64_t> all = file.get_ints(prefix_ + key);
    if (all.empty()) return file.get_int(prefix_ + key);  // says what is wrong
    if (std::any_of(all.begin(), all.end(), [&](int64_t one) { return one != all[0]; }))
      fail("{}: key {}: layers of different sizes are not supported", file.where(), quoted(prefix_ + key));
    return all[0];
  }
  // As the shortest decimal number: the file holds 32 bits.
  double number(const std::string& key, std::optional<double> otherwise = std::nullopt) const {
    const auto narrow = static_cast<float>(file.get_float(prefix_ + key, otherwise));
    return std::stod(fmt::format("{}", narrow));
  }
  bool truth(const std::string& key, bool otherwise) const { return file.get_bool(prefix_ + key, otherwise); }
  // One number, or one for each layer.
  std::vector<int64_t> integers(const std::string& key, int64_t otherwise) const {
    return has(key) ? file.get_ints(prefix_ + key) : std::vector<int64_t>{otherwise};
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return file.get_string(prefix_ + key, otherwise);
  }
  const GgufFile& file;

 private:
  std::string prefix_;
};

}  // namespace transom
