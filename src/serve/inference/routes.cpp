// SPDX-License-Identifier: Apache-2.0
#include "serve/inference/routes.h"

#include <algorithm>

#include "serve/api/known_fields.h"
#include "serve/inference/media.h"
#include "serve/scoring/pair_scores.h"
#include "serve/tgi/routes.h"

namespace transom::serve {
namespace {

bool is_media(const ServedModel& model) {
  const InputKind kind = input_kind_of_task(model.task);
  return kind == InputKind::kImage || kind == InputKind::kAudio;
}

// The request of a picture or sound whose bytes are the body.
bool has_bytes(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (!type) return false;
  const std::string kind = lower_case(type->substr(0, type->find(';')));
  return kind.starts_with("image/") || kind.starts_with("audio/") || kind.starts_with("video/") ||
         kind == "application/octet-stream";
}

void infer_media(const std::shared_ptr<Call>& call, ServedModel& model) {
  std::string bytes;
  Json parameters = Json::object();
  if (has_bytes(call->request())) {
    bytes = call->request().body;
    if (bytes.empty()) throw ApiError(400, "the body is empty: expected the bytes of a picture or sound", "inputs");
  } else {
    const Json body = call->body();
    RequestFields fields(body);
    const auto text = fields.text("inputs");
    if (!text) refuse_field("inputs", "inputs: missing; expected base64, or bytes as the body");
    bytes = media_bytes(*text, "inputs");
    if (const Json* given = fields.object("parameters")) parameters = *given;
    fields.any("model");
    expect_known_options(fields, "/models");
    expect_known_fields(fields, "/models");
  }
  compute_task(call, model, model.task, {media_input(bytes)}, parameters,
               [call](const std::vector<Json>& results) { call->reply(results.at(0)); });
}

void infer_vectors(const std::shared_ptr<Call>& call, ServedModel& model, RequestFields& fields, const Json& inputs) {
  Json none = Json::object();
  const Json* given = fields.object("parameters");
  RequestFields parameters(given ? *given : none, "parameters");
  VectorSettings settings = inference_settings();
  // huggingface_hub sends them beside `inputs` for this task alone.
  read_vector_settings(fields, settings);
  read_vector_settings(parameters, settings);
  fields.choice("pooling", {"auto"}), parameters.choice("pooling", {"auto"});
  expect_known_fields(parameters, "/models");
  expect_known_fields(fields, "/models");
  if (inputs.is_object()) {
    RequestFields both(inputs, "inputs");
    const SimilarTexts texts = read_similar_texts(both, call->services().options.max_client_batch_size);
    return compute_scores(call, model, texts.pairs, PairActivation::kAsModel, settings, texts.fields,
                          [call](const std::vector<double>& scores) { call->reply(scores); });
  }
  EncodedInputs encoded =
      encode_inputs(inputs, "inputs", model, call->services().options.max_client_batch_size, settings);
  compute_vectors(call, model, std::move(encoded), settings.normalize,
                  [call](const Vectors& vectors) { call->reply(vectors); });
}

// What pipelines return for one input and for several, but classes always as a list of lists, as the Hub does.
void infer_task(const std::shared_ptr<Call>& call, ServedModel& model, RequestFields& fields, const Json& inputs) {
  const Json* given = fields.object("parameters");
  Json parameters = given ? *given : Json::object();
  parameters.erase("truncation_strategy");
  for (auto each = parameters.begin(); each != parameters.end();)
    each = each->is_null() && each.key() != "top_k" ? parameters.erase(each) : std::next(each);
  std::string task = model.task;
  const bool of_labels = parameters.contains("candidate_labels") && model.runner->find("zero-shot-classification");
  if (of_labels) task = "zero-shot-classification";
  const Pipeline& pipeline = *model.runner->find(task);
  if (task == "text-classification" && !parameters.contains("top_k")) parameters["top_k"] = nullptr;
  if (task == "automatic-speech-recognition") parameters.erase("return_timestamps");
  const bool several = inputs.is_array() && !pipeline.is_one_input(inputs);
  if (inputs.is_null()) refuse_field("inputs", "inputs: missing; expected what {} reads", task);
  if (several && inputs.empty()) refuse_field("inputs", "inputs: expected what {} reads, found an empty list", task);
  std::vector<Json> list;
  if (several) list.assign(inputs.begin(), inputs.end());
  else list.push_back(inputs);
  if (static_cast<int64_t>(list.size()) > call->services().options.max_client_batch_size)
    refuse_field("inputs", "inputs: expected at most {} inputs", call->services().options.max_client_batch_size);
  compute_task(call, model, task, list, parameters, [call, task, several, &pipeline](std::vector<Json> results) {
    if (task == "text-classification") return call->reply(results);
    if (several) return call->reply(pipeline.joined(std::move(results)));
    call->reply(results.at(0));
  });
}

void infer(const std::shared_ptr<Call>& call) {
  std::string name = call->request().path.substr(std::string("/models/").size());
  if (const size_t task = name.find("/pipeline/"); task != name.npos) name.resize(task);
  ServedModel& model = call->use_model(
      &name, [](const ModelFacts&) { return true; }, "task");
  if (std::find(model.adapters.begin(), model.adapters.end(), name) != model.adapters.end())
    throw ApiError(400, fmt::format("{} is an adapter: ask the model {} for it by parameters.adapter_id", quoted(name),
                                    quoted(model.name)));
  infer_with(call, model);
}

}  // namespace

void infer_with(const std::shared_ptr<Call>& call, ServedModel& model) {
  call->model = model.name;
  if (is_media(model)) return infer_media(call, model);
  if (model.generator) return tgi_generate_with(call, model, true);
  const Json body = call->body();
  RequestFields fields(body);
  const Json* inputs = fields.any("inputs");
  if (!inputs) refuse_field("inputs", "inputs: missing; expected {{\"inputs\": ..., \"parameters\": {{...}}}}");
  expect_known_options(fields, "/models");
  for (const char* read_later : {"parameters", "model"}) fields.any(read_later);
  if (model.embedder) return infer_vectors(call, model, fields, *inputs);
  expect_known_fields(fields, "/models");
  infer_task(call, model, fields, *inputs);
}

std::vector<Route> inference_routes() {
  return {{"POST", "/models/", infer, ErrorForm::kInference, Route::kPrefix | Route::kMedia}};
}

}  // namespace transom::serve
