// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/attributes.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

Attributes::Attributes(std::initializer_list<std::pair<std::string_view, AttributeValue>> items) {
  items_.reserve(items.size());
  for (const auto& [name, value] : items) set(name, value);
}

const AttributeValue* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : items_)
    if (key == name) return &value;
  return nullptr;
}

namespace {

template <typename T>
const T& checked(const AttributeValue* value, std::string_view name) {
  if (!value) fail(ErrorKind::kInternal, "operation attribute '{}' is missing", name);
  if (!std::holds_alternative<T>(*value)) fail(ErrorKind::kInternal, "operation attribute '{}' has another type", name);
  return std::get<T>(*value);
}

}  // namespace

int64_t Attributes::get_int(std::string_view name) const { return checked<int64_t>(find(name), name); }
double Attributes::get_float(std::string_view name) const { return checked<double>(find(name), name); }
const std::string& Attributes::get_string(std::string_view name) const {
  return checked<std::string>(find(name), name);
}
const std::vector<int64_t>& Attributes::get_ints(std::string_view name) const {
  return checked<std::vector<int64_t>>(find(name), name);
}

void Attributes::set(std::string_view name, AttributeValue value) {
  const auto place = std::lower_bound(items_.begin(), items_.end(), name,
                                      [](const auto& item, std::string_view key) { return item.first < key; });
  if (place != items_.end() && place->first == name) place->second = std::move(value);
  else items_.emplace(place, std::string(name), std::move(value));
}

std::string to_string(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.items()) {
    if (!text.empty()) text += ", ";
    text += name + "=";
    if (const auto* number = std::get_if<int64_t>(&value)) text += std::to_string(*number);
    else if (const auto* real = std::get_if<double>(&value)) {
      std::string digits = fmt::format("{}", *real);
      // An integral double keeps a point, so that the text reads back as a double.
      if (digits.find_first_of(".enif") == std::string::npos) digits += ".0";
      text += digits;
    } else if (const auto* word = std::get_if<std::string>(&value)) {
      text += '"';
      for (const char c : *word) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
      }
      text += '"';
    } else text += fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(value), ", "));
  }
  return text;
}

}  // namespace transom
