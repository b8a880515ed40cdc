// SPDX-License-Identifier: Apache-2.0
// The list of all architecture families.
#include "base/error.h"
#include "models/family.h"

namespace transom {

Family bert_family();
Family camembert_family();
Family distilbert_family();
Family roberta_family();
Family xlm_roberta_family();

const std::vector<Family>& families() {
  static const std::vector<Family> all = {bert_family(), camembert_family(), distilbert_family(), roberta_family(), xlm_roberta_family()};
  return all;
}

int64_t number_of_labels(const Config& config) {
  const auto labels = config.get_map("id2label");
  if (!labels.empty()) return static_cast<int64_t>(labels.size());
  return config.get_int("num_labels", 2);
}

void refuse_unless(const Config& config, const std::string& field, const std::string& expected) {
  if (!config.has(field)) return;
  const bool flag = expected == "true" || expected == "false";
  const std::string found = flag ? (config.get_bool(field) ? "true" : "false") : config.get_string(field);
  if (found != expected) fail("config.json: {} = {} is not carried out; only {} is", field, quoted(found), expected);
}

}  // namespace transom
