// SPDX-License-Identifier: Apache-2.0
// /embed, /embed_all, /embed_sparse, /predict and /info of text-embeddings-inference.
#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/written_numbers.h"
#include "apps/serve/encoders/run_encoders.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/tei/routes.h"

namespace transom::serve {
namespace {

struct TeiInputs {
  ServedModel* model = nullptr;
  EncodedInputs encoded;
  VectorSettings settings = tei_settings();
};

TeiInputs read_inputs(const std::shared_ptr<Call>& call, RequestFields& fields) {
  TeiInputs inputs;
  const auto name = fields.text("model");
  inputs.model = &call->use_model(name ? &*name : nullptr, can_embed, "embeddings");
  const Json* given = fields.any("inputs");
  if (!given) refuse_field("inputs", "inputs: missing; expected a string or a list");
  read_vector_settings(fields, inputs.settings);
  inputs.encoded =
      encode_inputs(*given, "inputs", *inputs.model, call->services().options.max_client_batch_size, inputs.settings);
  return inputs;
}

// {"score", "label"} by falling score.
Json classes_as_tei(const TaskResult& result) {
  Json list = Json::array();
  for (const auto& [label, score] : std::get<Classes>(result))
    list.push_back({{"score", written_score(score)}, {"label", label}});
  return list;
}

}  // namespace

void tei_embed(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  TeiInputs inputs = read_inputs(call, fields);
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  expect_known_fields(fields, "/embed");
  call->answer_headers.emplace_back("x-compute-tokens", std::to_string(inputs.encoded.tokens));
  ServedModel& model = *inputs.model;
  const bool normalize = inputs.settings.normalize.value_or(true);
  compute_vectors(call, model, std::move(inputs.encoded), normalize,
                  [call, dimensions, normalize, &model](Vectors vectors) {
                    for (std::vector<float>& vector : vectors) cut_vector(vector, dimensions, normalize, model);
                    call->answer_headers.emplace_back("x-total-time", fmt::format("{:.0f}", call->milliseconds()));
                    call->reply(written(vectors));
                  });
}

// The hidden states of each token.
void tei_embed_all(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  TeiInputs inputs = read_inputs(call, fields);
  expect_known_fields(fields, "/embed_all");
  // The answer has a vector a token, as text.
  constexpr int64_t kMostTokens = 16384;
  if (inputs.encoded.tokens > kMostTokens)
    throw ApiError(413, fmt::format("the inputs have {} tokens; /embed_all takes at most {} tokens in one request",
                                    inputs.encoded.tokens, kMostTokens));
  std::vector<size_t> lengths;
  for (const Encoding& encoding : inputs.encoded.encodings) lengths.push_back(encoding.size());
  compute_states(call, *inputs.model, std::move(inputs.encoded.encodings), [call, lengths](const Vectors& states) {
    Json lists = Json::array();
    for (size_t i = 0; i < states.size(); ++i) {
      const auto width = static_cast<ptrdiff_t>(states[i].size() / lengths[i]);
      Json tokens = Json::array();
      for (auto token = states[i].begin(); token != states[i].end(); token += width)
        tokens.push_back(written(std::vector<float>(token, token + width)));
      lists.push_back(std::move(tokens));
    }
    call->reply(lists);
  });
}

// The tokens of the vocabulary that have a weight.
void tei_embed_sparse(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  const auto usable = [](const ModelFacts& facts) { return facts.runs("fill-mask"); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, usable, "sparse embeddings");
  const Json* given = fields.any("inputs");
  if (!given) refuse_field("inputs", "inputs: missing; expected a string or a list");
  VectorSettings settings = tei_settings();
  read_vector_settings(fields, settings);
  refuse_prompt(settings);
  expect_known_fields(fields, "/embed_sparse");
  EncodedInputs encoded =
      encode_inputs(*given, "inputs", model, call->services().options.max_client_batch_size, settings);
  call->answer_headers.emplace_back("x-compute-tokens", std::to_string(encoded.tokens));
  compute_sparse(call, model, std::move(encoded.encodings), [call](const Vectors& vectors) {
    Json lists = Json::array();
    for (const std::vector<float>& vector : vectors) {
      Json list = Json::array();
      for (size_t i = 0; i < vector.size(); ++i)
        if (vector[i] != 0) list.push_back({{"index", i}, {"value", written(vector[i])}});
      lists.push_back(std::move(list));
    }
    call->reply(lists);
  });
}

// inputs: a text, a pair [a, b], or a batch [[a], [a, b], ...].
void tei_predict(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  const auto usable = [](const ModelFacts& facts) { return facts.runs("text-classification"); };
  ServedModel& model = call->use_model(name ? &*name : nullptr, usable, "classes");
  const Json* given = fields.any("inputs");
  if (!given) refuse_field("inputs", "inputs: missing; expected a text, a pair or a list of them");
  const bool raw = fields.boolean("raw_scores").value_or(false);
  VectorSettings settings = tei_settings();
  read_vector_settings(fields, settings);
  refuse_prompt(settings);
  expect_known_fields(fields, "/predict");
  const bool batch = given->is_array() && !given->empty() && (*given)[0].is_array();
  const auto one = [](const Json& item) -> TaskInput {
    if (item.is_string()) return TextInput(item.get<std::string>());
    if (item.is_array() && item.size() == 1 && item[0].is_string()) return TextInput(item[0].get<std::string>());
    if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string())
      return TextInput(item[0].get<std::string>(), item[1].get<std::string>());
    refuse_field("inputs", "inputs: expected a text or a pair of texts, found {}", quoted(compact(item)));
  };
  std::vector<TaskInput> inputs;
  if (batch)
    for (const Json& item : *given) inputs.push_back(one(item));
  else inputs.push_back(one(*given));
  if (static_cast<int64_t>(inputs.size()) > call->services().options.max_client_batch_size)
    refuse_field("inputs", "inputs: expected at most {} inputs", call->services().options.max_client_batch_size);
  Json parameters{{"top_k", nullptr}};
  if (raw) parameters["function_to_apply"] = "none";
  compute_task(
      call, model, "text-classification", inputs, parameters,
      [call, batch](const std::vector<TaskResult>& results) {
        if (!batch) return call->reply(classes_as_tei(results[0]));
        Json lists = Json::array();
        for (const TaskResult& result : results) lists.push_back(classes_as_tei(result));
        call->reply(lists);
      },
      &settings.too_long);
}

void tei_info(const std::shared_ptr<Call>& call) {
  const Services& services = call->services();
  const std::vector<const ModelFacts*> models = services.models->facts();
  if (models.empty()) throw ApiError(503, "the server is loading its models");
  const ModelFacts& model = *models[0];
  const ServeOptions& options = services.options;
  const Json type = model.embeds    ? Json{{"embedding", {{"pooling", model.pooling}}}}
                    : !model.writes ? Json{{"classifier", {{"id2label", model.labels}}}}
                                    : Json{{"generation", Json::object()}};
  call->reply({{"model_id", model.name},
               {"model_sha", nullptr},
               {"model_dtype", model.dtype},
               {"served_model_name", model.name},
               {"model_type", type},
               {"model_pipeline_tag", model.task},
               {"max_concurrent_requests", options.max_concurrent_requests},
               {"max_input_length", model.max_length ? Json(*model.max_length) : Json()},
               {"max_batch_tokens", options.max_batch_tokens},
               {"max_batch_requests", options.max_batch_requests},
               {"max_client_batch_size", options.max_client_batch_size},
               {"auto_truncate", false},
               {"tokenization_workers", options.request_threads},
               {"version", options.version}});
}

std::vector<Route> tei_routes() {
  return {{"POST", "/embed", tei_embed, ErrorForm::kTei},
          {"POST", "/embed_all", tei_embed_all, ErrorForm::kTei},
          {"POST", "/embed_sparse", tei_embed_sparse, ErrorForm::kTei},
          {"POST", "/predict", tei_predict, ErrorForm::kTei},
          {"POST", "/tokenize", tokenize},
          {"POST", "/detokenize", detokenize},
          {"POST", "/decode", detokenize, ErrorForm::kTei},
          {"GET", "/info", tei_info, ErrorForm::kTei}};
}

}  // namespace transom::serve
