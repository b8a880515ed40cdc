// SPDX-License-Identifier: Apache-2.0
// model.bin of CTranslate2 (versions 4 to 6): the name of a specification, variables, and other names of them. What the
// variables mean is known to whom a specification belongs (ct2_spec.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "files/checkpoint/tensor_view.h"

namespace transom {

constexpr uint32_t kOldestCt2 = 4, kNewestCt2 = 6;  // versions of files that are read

class Ct2File {
 public:
  // Refuses what is no such file, or is cut off, by its name. The views keep the file mapped.
  static Ct2File open(const std::filesystem::path& path);
  // `where` is for errors.
  static Ct2File parse(std::span<const std::byte> bytes, const std::string& where, std::shared_ptr<const void> owner);

  const std::string& spec() const { return spec_; }
  int64_t revision() const { return revision_; }
  const std::string& where() const { return where_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const std::vector<int64_t>& shape(const std::string& name) const { return at(name).view.shape; }
  // A variable as numbers in floats: codes of 8 bits are multiplied out by the scales beside them. Throws where it is
  // missing.
  TensorView floats(const std::string& name) const;
  // A number alone.
  int64_t integer(const std::string& name) const;

 private:
  struct Variable {
    enum class Type : uint8_t { kFloat32, kInt8, kInt16, kInt32, kFloat16, kBFloat16 } type;
    TensorView view;  // its dtype counts for floats alone
  };
  const Variable* find(std::string_view name) const;
  const Variable& at(const std::string& name) const;
  std::string spec_, where_;
  int64_t revision_ = 0;
  std::map<std::string, Variable, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> aliases_;
};

// Rows from..to of a matrix or vector.
TensorView rows_of_view(const TensorView& view, int64_t from, int64_t to);

}  // namespace transom
