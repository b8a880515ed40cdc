// SPDX-License-Identifier: Apache-2.0
#include "models/records.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"

namespace transom {
namespace {

struct Record {
  const Family* family = nullptr;
  const Architecture* architecture = nullptr;
};

// Two families may have classes of one name: the configuration says which.
Record record_of(const Model& model) {
  Record found;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) {
      if (architecture.name != model.architecture()) continue;
      if (!found.family || &family == find_family(model.config())) found = {&family, &architecture};
    }
  return found;
}

Record known_record_of(const Model& model) {
  const Record record = record_of(model);
  if (!record.architecture)
    fail(ErrorKind::kUnsupported, "{}: unknown architecture {}: expected one of those that `transom models` lists",
         model.config().where(), quoted(model.architecture()));
  return record;
}

// The number at a path, as InputExtent has it; null: there is none.
const Json* number_at(const Json& json, std::string_view path) {
  const size_t dot = path.find('.');
  const auto found = json.find(std::string(path.substr(0, dot)));
  const bool is_there = found != json.end() && !found->is_null();
  if (dot == path.npos) return is_there ? &*found : nullptr;
  const std::string_view rest = path.substr(dot + 1);
  if (!rest.empty() && rest.find_first_not_of("0123456789") == rest.npos) {
    if (!is_there || !found->is_array()) return is_there ? &*found : nullptr;
    const auto place = static_cast<size_t>(std::stoul(std::string(rest)));
    return place < found->size() ? &(*found)[place] : nullptr;
  }
  return number_at(is_there && found->is_object() ? *found : json, rest);
}

}  // namespace

const Architecture* find_architecture(const Model& model) { return record_of(model).architecture; }
const Architecture& architecture_of(const Model& model) { return *known_record_of(model).architecture; }
const FamilyHead& head_of(const Model& model) { return architecture_of(model).head; }

const FamilyInputs& inputs_of(const Model& model) {
  const Record record = known_record_of(model);
  return record.architecture->inputs ? *record.architecture->inputs : *record.family->inputs;
}

const Family* find_family(const Config& config) {
  if (config.has("model_type")) return find_family(config.get_string("model_type"));
  // Networks of diffusers share fields: where the class is named, it says more.
  std::vector<std::string> classes = config.get_strings("architectures");
  if (config.has("_class_name")) classes.push_back(config.get_string("_class_name"));
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      if (!family.mark.empty() && std::find(classes.begin(), classes.end(), architecture.name) != classes.end())
        return &family;
  for (const Family& family : families())
    if (!family.mark.empty() && config.has(family.mark)) return &family;
  return nullptr;
}

std::optional<int64_t> extent_of(const Config& config, const InputExtent& extent) {
  if (extent.fields.empty()) return std::nullopt;
  const auto made = [&](int64_t number) { return (extent.squared ? number * number : number) * extent.times; };
  const double most = extent.squared ? 1e6 : 1e12;
  for (const std::string& field : extent.fields) {
    const Json* number = number_at(json_of(config), field);
    if (!number) continue;
    if (!number->is_number_integer() || number->get<double>() < 0 || number->get<double>() > most)
      fail("{}: {}: expected a whole number from 0 to {}, found {}", config.where(), field, most, number->dump());
    return made(number->get<int64_t>());
  }
  return extent.otherwise > 0 ? std::optional(made(extent.otherwise)) : std::nullopt;
}

int64_t vocabulary_of(const Config& config, const FamilyHead& head) {
  return extent_of(config, {.name = "", .fields = head.vocabulary_size}).value_or(0);
}

int64_t class_count(const Config& config, const FamilyHead& head) {
  const auto names = config.get_map("id2label");
  if (!names.empty()) return static_cast<int64_t>(names.size());
  return config.get_int(head.classes, head.classes == "num_labels" ? 2 : 0);  // 2: as Transformers has it
}

bool recognises_by_writing(const Family& family) {
  const Architecture* architecture = find_architecture(family, "automatic-speech-recognition");
  return architecture && is_encoder_decoder(architecture->head);
}

bool is_of_head(const FamilyHead& head, std::string_view parameter) {
  return std::any_of(head.modules->begin(), head.modules->end(), [&](const std::string& module) {
    return parameter.starts_with(module) && (parameter.size() == module.size() || parameter[module.size()] == '.');
  });
}

}  // namespace transom
