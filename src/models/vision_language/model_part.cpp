// SPDX-License-Identifier: Apache-2.0
#include "models/vision_language/model_part.h"

#include "base/error.h"
#include "base/json/json.h"
#include "models/loading/config_keys.h"
#include "models/loading/weights/other_formats.h"
#include "models/records.h"

namespace transom {

Config part_config(const Config& config, const std::string& field, const std::string& type) {
  Config part = config.get_object(field);
  if (!part.has("model_type")) set_field(part, "model_type", type);
  return part;
}

std::unique_ptr<Model> make_part(const Config& part, const std::string& task, const Scope& scope) {
  const Family* family = find_family(part);
  const Architecture* architecture = family ? find_architecture(*family, task) : nullptr;
  if (!architecture) {
    std::vector<std::string> able;
    for (const Family& each : families())
      if (find_architecture(each, task)) able.push_back(each.model_type);
    const std::string type = family ? family->model_type : part.get_json("model_type");
    fail(ErrorKind::kUnsupported, "{}: model_type: {} gives no {}{} Families that do are: {}", part.where(),
         quoted(type), task, did_you_mean(type, able), fmt::join(able, ", "));
  }
  std::unique_ptr<Model> model = architecture->make(part, scope);
  check_config_keys(part);
  complete_model(*model, part, architecture->name, {});
  return model;
}

}  // namespace transom
