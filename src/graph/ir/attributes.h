// SPDX-License-Identifier: Apache-2.0
// The parameters of an operation: a few named values, sorted by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace transom {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, AttributeValue>> items);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Throw an internal error where the attribute is missing or of another kind.
  int64_t get_int(std::string_view name) const;
  double get_float(std::string_view name) const;
  const std::string& get_string(std::string_view name) const;
  const std::vector<int64_t>& get_ints(std::string_view name) const;
  int64_t get_int(std::string_view name, int64_t otherwise) const { return has(name) ? get_int(name) : otherwise; }

  void set(std::string_view name, AttributeValue value);
  const std::vector<std::pair<std::string, AttributeValue>>& items() const { return items_; }
  bool operator==(const Attributes&) const = default;

 private:
  const AttributeValue* find(std::string_view name) const;
  std::vector<std::pair<std::string, AttributeValue>> items_;
};

std::string to_string(const Attributes& attributes);  // "axis=1, shape=[2, 3]"

}  // namespace transom
