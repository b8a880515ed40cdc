// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/encoders/vector_settings.h"

#include "apps/serve/http/message.h"

namespace transom::serve {
namespace {

Side side_of(const std::string& word) { return lower_case(word) == "left" ? Side::kLeft : Side::kRight; }

}  // namespace

VectorSettings tei_settings() { return {.too_long = {.remedy = "set truncate to true", .status = 413}}; }

VectorSettings inference_settings() {
  return {.too_long = {.what = TooLong::kTruncate, .remedy = "set truncate to true"}};
}

void read_vector_settings(RequestFields& fields, VectorSettings& settings) {
  if (const auto given = fields.boolean("truncate"))
    settings.too_long.what = *given ? TooLong::kTruncate : TooLong::kRefuse;
  if (const auto given = fields.choice("truncation_direction", {"right", "left", "Right", "Left"}))
    settings.too_long.side = side_of(*given);
  if (const auto given = fields.text("prompt_name")) settings.prompt = given;
  if (const auto given = fields.boolean("normalize")) settings.normalize = given;
}

VectorSettings read_pooling_settings(RequestFields& fields) {
  VectorSettings settings;
  if (const auto cut = fields.integer("truncate_prompt_tokens", -1, INT32_MAX)) {
    if (*cut == 0) refuse_field("truncate_prompt_tokens", "truncate_prompt_tokens: expected -1 or a number above 0");
    settings.too_long.what = TooLong::kTruncate;
    if (*cut > 0) settings.too_long.length = *cut;
  }
  if (const auto given = fields.choice("truncation_side", {"right", "left"})) settings.too_long.side = side_of(*given);
  if (const auto given = fields.text("prompt_name")) settings.prompt = given;
  settings.normalize = fields.boolean("normalize");
  return settings;
}

}  // namespace transom::serve
