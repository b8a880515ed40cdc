// SPDX-License-Identifier: Apache-2.0
// The container of llama.cpp's models, GGUF versions 2 and 3, little-endian:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files/files.h"

namespace transom {

// Numbers are widened; of arrays, those of numbers and of strings are known.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // as PyTorch has it: the last extent is that of a row
  uint32_t type = 0;           // of ggml; see io/blocks/ggml_blocks.h
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class GgufFile {
 public:
  // Maps the file, with all its parts where it is the first of several (NAME-00001-of-00003.gguf), and checks all
  // tables before anything is read through them. Errors begin with the file.
  static GgufFile open(const fs::path& path);
  // From memory that `owner` keeps alive; a file in several parts is refused.
  static GgufFile parse(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;
  const std::string& where() const { return where_; }

  bool has(std::string_view key) const { return find_value(key) != nullptr; }
  std::vector<std::string> keys() const;
  const GgufValue* find_value(std::string_view key) const;  // null where absent
  // Values by key; an error that names the key where it is missing (without `otherwise`) or of another type.
  int64_t get_int(std::string_view key, std::optional<int64_t> otherwise = std::nullopt) const;
  double get_float(std::string_view key, std::optional<double> otherwise = std::nullopt) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  std::string get_string(std::string_view key, std::optional<std::string> otherwise = std::nullopt) const;
  const std::vector<std::string>& get_strings(std::string_view key) const;  // empty where absent
  std::vector<double> get_floats(std::string_view key) const;
  std::vector<int64_t> get_ints(std::string_view key) const;  // one number counts as a list of one

 private:
  void add(GgufFile part);
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> places_;
  std::string where_;
};

// The one GGUF model in a directory (the first part of one in several); nothing where there is none. Files of vision
// towers (mmproj) do not count. Several models are an error that names them.
std::optional<fs::path> gguf_in(const fs::path& directory);

}  // namespace transom
