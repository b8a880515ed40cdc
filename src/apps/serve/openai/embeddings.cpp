// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings.
#include <openssl/evp.h>

#include <bit>
#include <cstring>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/openai/routes.h"

namespace transom::serve {
namespace {

// Little-endian f32, as the official client asks for by default.
std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  std::string text((vector.size() * sizeof(float) + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(vector.data()),
                                     static_cast<int>(vector.size() * sizeof(float)));
  text.resize(static_cast<size_t>(length));
  return text;
}

}  // namespace

void embeddings(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = call->use_model(name ? &*name : nullptr, can_embed, "embeddings");
  const bool base64 = fields.choice("encoding_format", {"float", "base64"}).value_or("float") == "base64";
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  VectorSettings settings = read_pooling_settings(fields);
  if (const auto given = fields.boolean("use_activation")) settings.normalize = given;  // vLLM's later name
  const bool special_tokens = fields.boolean("add_special_tokens").value_or(true);
  const Json* input = fields.any("input");
  if (!input) refuse_field("input", "input: missing; expected a string or a list");
  expect_known_fields(fields, "/v1/embeddings");
  EncodedInputs inputs =
      encode_inputs(*input, "input", model, call->services().options.max_client_batch_size, settings, special_tokens);
  const int64_t tokens = inputs.tokens;
  const std::optional<bool> normalize = normalizes(settings, model);
  compute_vectors(call, model, std::move(inputs), normalize,
                  [call, base64, dimensions, tokens, normalize, &model](Vectors vectors) {
                    Json data = Json::array();
                    for (size_t i = 0; i < vectors.size(); ++i) {
                      cut_vector(vectors[i], dimensions, normalize, model);
                      data.push_back({{"object", "embedding"},
                                      {"index", i},
                                      {"embedding", base64 ? Json(base64_of(vectors[i])) : written(vectors[i])}});
                    }
                    call->reply({{"object", "list"},
                                 {"data", std::move(data)},
                                 {"model", model.name},
                                 {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
                  });
}

}  // namespace transom::serve
