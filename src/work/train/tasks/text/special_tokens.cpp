// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/text/special_tokens.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "models/generative.h"
#include "transom/tokenizer.h"

namespace transom {
namespace {

// One id, several, or null for none.
std::vector<Json> ids_of(const Config& config, const std::string& name) {
  if (!config.has(name)) return {};
  const Json& value = json_of(config)[name];
  if (!value.is_array()) return {value};
  return {value.begin(), value.end()};
}

// `id` and behind it the others.
Json with_first(int64_t id, const std::vector<Json>& others) {
  Json all = Json::array({id});
  for (const Json& other : others)
    if (other != id) all.push_back(other);
  return all;
}

}  // namespace

void align_special_tokens(Model& model, const Tokenizer& tokenizer, std::optional<int64_t> end) {
  auto* writer = dynamic_cast<GenerativeModel*>(&model);
  Config* generation = writer && writer->can_generate() ? &writer->generation_config() : nullptr;
  Config& config = model.config();
  for (const auto& [role, name] :
       {std::pair("eos", "eos_token_id"), {"bos", "bos_token_id"}, {"pad", "pad_token_id"}}) {
    const bool ends = role == std::string_view("eos");
    const std::optional<int64_t> id = ends && end ? end : tokenizer.special_token_id(role);
    if (!id) continue;
    const std::vector<Json> known = ids_of(config, name), generating = generation ? ids_of(*generation, name) : known;
    const auto holds = [&](const std::vector<Json>& ids) {
      return std::find(ids.begin(), ids.end(), *id) != ids.end();
    };
    if (holds(known) && holds(generating)) continue;
    const bool several = config.has(name) && json_of(config)[name].is_array();
    set_field(config, name, ends && several ? with_first(*id, known) : Json(*id));
    if (generation) set_field(*generation, name, ends ? with_first(*id, generating) : Json(*id));
    log(LogLevel::kInfo, fmt::format("the model's {} becomes the tokenizer's: {}", name, *id));
  }
}

}  // namespace transom
