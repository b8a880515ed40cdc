// SPDX-License-Identifier: Apache-2.0
// POST /api/embed, and /api/embeddings, its elder, which takes one text.
#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/encoders/encode_inputs.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/ollama/routes.h"

namespace transom::serve {

void ollama_embed(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = ollama_model_name(fields, call->services());
  ServedModel& model = call->use_model(&name, can_embed, "embeddings");
  VectorSettings settings = inference_settings();
  if (!fields.boolean("truncate").value_or(true)) settings.too_long.what = TooLong::kRefuse;
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  const Json* input = fields.any("input");
  expect_known_options(fields, "/api/embed");
  expect_known_fields(fields, "/api/embed");
  if (!input) refuse_field("input", "input: missing; expected a string or a list");
  EncodedInputs inputs =
      encode_inputs(*input, "input", model, call->services().options.max_client_batch_size, settings);
  const int64_t tokens = inputs.tokens;
  const std::string shown = fields.text("model").value_or(name);
  compute_vectors(call, model, std::move(inputs), true, [call, dimensions, tokens, shown, &model](Vectors vectors) {
    for (std::vector<float>& vector : vectors) cut_vector(vector, dimensions, true, model);
    call->reply({{"model", shown},
                 {"embeddings", written(vectors)},
                 {"total_duration", static_cast<int64_t>(call->milliseconds() * 1e6)},
                 {"load_duration", 0},
                 {"prompt_eval_count", tokens}});
  });
}

void ollama_embeddings(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = ollama_model_name(fields, call->services());
  ServedModel& model = call->use_model(&name, can_embed, "embeddings");
  const auto prompt = fields.text("prompt");
  expect_known_options(fields, "/api/embeddings");
  expect_known_fields(fields, "/api/embeddings");
  if (!prompt) refuse_field("prompt", "prompt: missing; expected a string");
  EncodedInputs inputs = encode_inputs(Json(*prompt), "prompt", model, 1, inference_settings());
  compute_vectors(call, model, std::move(inputs), std::nullopt, [call](const Vectors& vectors) {
    call->reply({{"embedding", written(vectors.at(0))}});
  });
}

}  // namespace transom::serve
