// SPDX-License-Identifier: Apache-2.0
#include "models/next_token.h"

#include <string>

#include "base/json/json.h"
#include "models/records.h"

namespace transom {
namespace {

bool is_writer(const Architecture* known) { return known && *known->head.task == HeadTask::kCausalLM; }

}  // namespace

bool predicts_next_token(const Model& model) { return is_writer(find_architecture(model)); }

bool predicts_next_token(const Json& config) {
  if (!config.is_object()) return false;
  const auto names = config.find("architectures");
  if (names == config.end() || !names->is_array() || names->empty() || !(*names)[0].is_string()) return false;
  return is_writer(find_architecture((*names)[0].get_ref<const std::string&>()));
}

}  // namespace transom
