// SPDX-License-Identifier: Apache-2.0
// All architecture families: those that register themselves, and those that are read from files.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "models/described/family_folders.h"
#include "models/family.h"

namespace transom {

namespace {

std::vector<Family (*)()>& makers() {
  static std::vector<Family (*)()> all;
  return all;
}

}  // namespace

RegisterFamilies::RegisterFamilies(std::initializer_list<Family (*)()> records) {
  makers().insert(makers().end(), records);
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> made;
    for (Family (*make)() : makers()) made.push_back(make());
    for (Family& described : described_families(made)) made.push_back(std::move(described));
    std::sort(made.begin(), made.end(), [](const Family& a, const Family& b) { return a.model_type < b.model_type; });
    return made;
  }();
  return all;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures)
      if (architecture.name == name) return &architecture;
  return nullptr;
}

const Architecture* find_architecture(const Family& family, HeadTask task) {
  for (const Architecture& architecture : family.architectures)
    if (*architecture.head.task == task) return &architecture;
  return nullptr;
}

const Architecture* find_architecture(const Family& family, std::string_view pipeline) {
  for (const Architecture& architecture : family.architectures)
    if (const auto& all = *architecture.head.pipelines; std::find(all.begin(), all.end(), pipeline) != all.end())
      return &architecture;
  return nullptr;
}

int64_t number_of_labels(const Config& config) {
  const auto labels = config.get_map("id2label");
  if (!labels.empty()) return static_cast<int64_t>(labels.size());
  return config.get_int("num_labels", 2);
}

std::optional<int64_t> padding_id(const Config& config, int64_t otherwise) {
  if (config.has("pad_token_id")) return config.get_int("pad_token_id");
  return json_of(config).contains("pad_token_id") ? std::nullopt : std::optional(otherwise);
}

Config with_defaults(Config config, std::string_view defaults) {
  const Json fields = parse_json(defaults, "the family's defaults");
  const bool no_padding = json_of(config).contains("pad_token_id");  // null: there is none
  for (const auto& [key, value] : fields.items())
    if (!config.has(key) && !(key == "pad_token_id" && no_padding)) set_field(config, key, value);
  return config;
}

void refuse_unless(const Config& config, const std::string& field, const std::string& expected) {
  if (!config.has(field)) return;
  const bool flag = expected == "true" || expected == "false";
  const std::string found = flag ? (config.get_bool(field) ? "true" : "false") : config.get_string(field);
  if (found != expected)
    fail(ErrorKind::kUnsupported, "config.json: {} = {} is not carried out; only {} is", field, quoted(found),
         expected);
}

}  // namespace transom
