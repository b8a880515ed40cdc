// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/media/object_classes.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/model_config.h"
#include "models/family.h"

namespace transom {
namespace {

bool is_class_number(const std::string& name) {
  return !name.empty() && name.size() < 7 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Json list_of_objects(const Value& value, const std::string& where) {
  if (std::holds_alternative<std::monostate>(value)) return Json::array();
  if (const auto* text = std::get_if<JsonList>(&value)) return parse_json(text->text, where);
  if (const auto* whole = std::get_if<std::vector<int64_t>>(&value)) return *whole;
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) return *numbers;
  if (const auto* words = std::get_if<std::vector<std::string>>(&value)) return *words;
  fail("{}: expected a list", where);
}

std::vector<std::string> object_names(const Value& value, const std::string& where) {
  std::vector<std::string> names;
  for (const Json& name : list_of_objects(value, where)) {
    if (!name.is_string() && !name.is_number_integer())
      fail("{}: {}: expected numbers or names of classes, found {}", where, kObjectClassColumn,
           quoted(dump_json(name)));
    names.push_back(name.is_string() ? name.get<std::string>() : dump_json(name));
  }
  return names;
}

std::vector<std::string> new_object_classes(std::vector<std::string> names, const std::vector<std::string>& known) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (std::all_of(names.begin(), names.end(), is_class_number)) {
    int64_t largest = 0;
    for (const std::string& name : names) largest = std::max<int64_t>(largest, std::stoll(name));
    if (largest < static_cast<int64_t>(known.size())) return {};
    names.clear();
    for (int64_t i = 0; i <= largest; ++i) names.push_back(fmt::format("LABEL_{}", i));
    return names;
  }
  const auto is_known = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  return std::all_of(names.begin(), names.end(), is_known) ? std::vector<std::string>() : names;
}

int64_t object_class(const std::string& name, const std::vector<std::string>& classes, const std::string& where) {
  const auto at = std::find(classes.begin(), classes.end(), name);
  if (at != classes.end()) return at - classes.begin();
  if (!is_class_number(name)) fail("{}: class {} is not among those of the model", where, quoted(name));
  const int64_t number = std::stoll(name);
  if (number >= static_cast<int64_t>(classes.size()))
    fail("{}: class {} is not among the {} of the model", where, name, classes.size());
  return number;
}

std::vector<std::string> classes_of_checkpoint(const std::filesystem::path& directory, HeadTask task) {
  if (directory.empty()) return {};
  const Config config = read_model_config(directory);
  for (const std::string& name : config.get_strings("architectures"))
    if (const Architecture* known = find_architecture(name); known && *known->head.task == task) {
      std::vector<std::string> classes;
      for (const auto& [id, label] : config.get_map("id2label")) classes.push_back(label);
      return classes;
    }
  return {};
}

}  // namespace transom
