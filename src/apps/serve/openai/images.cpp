// SPDX-License-Identifier: Apache-2.0
// POST /v1/images/generations: a text to pictures.
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/openai/drawing_fields.h"
#include "apps/serve/openai/routes.h"

namespace transom::serve {

void image_generations(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  const auto can_draw = [](const ModelFacts& model) { return model.runs("text-to-image"); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_draw, "text-to-image");
  const auto prompt = fields.text("prompt", kLongestImagePrompt);
  if (!prompt) refuse_field("prompt", "prompt: missing; expected a text");
  const Json parameters = drawing_parameters(fields);
  expect_picture_form(fields, "/v1/images/generations");
  refuse_unknown_drawing(fields);
  compute_task(call, model, "text-to-image", {TextInput(*prompt)}, parameters,
               [call](const std::vector<TaskResult>& results) { reply_pictures(call, results); });
}

}  // namespace transom::serve
