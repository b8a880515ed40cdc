// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/inference/routes.h"

#include <algorithm>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/inference/media.h"
#include "apps/serve/scoring/pair_scores.h"
#include "apps/serve/tgi/routes.h"
#include "inputs/audio/write_wav.h"
#include "inputs/images/write_png.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/output/result_files.h"

namespace transom::serve {
namespace {

bool is_media(const ServedModel& model) { return is_media(need_task(model.task).input); }

// The request of a picture or sound whose bytes are the body.
bool has_bytes(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (!type) return false;
  const std::string kind = lower_case(type->substr(0, type->find(';')));
  return kind.starts_with("image/") || kind.starts_with("audio/") || kind.starts_with("video/") ||
         kind == "application/octet-stream";
}

// Whether the client takes the picture or sound itself rather than JSON: "Accept: image/png".
bool wants(const HttpRequest& request, std::string_view type) {
  const std::string* accepted = request.header("accept");
  return accepted && lower_case(*accepted).find(type) != std::string::npos &&
         accepted->find("application/json") == std::string::npos;
}

// What a result is in Hugging Face's form: JSON, or the bytes of its one picture or sound where those are asked for.
void reply_result(const std::shared_ptr<Call>& call, const TaskRecord& task, const TaskInput& input,
                  const TaskOptions& options, const TaskResult& result, const CallForm& form) {
  if (wants(call->request(), "image/"))
    if (const Picture* picture = only_picture(result))
      return call->respond({.status = 200, .body = encode_png(*picture), .content_type = "image/png"});
  if (wants(call->request(), "audio/"))
    if (const Waveform* sound = std::get_if<Waveform>(&result))
      return call->respond({.status = 200, .body = encode_wav(*sound), .content_type = "audio/wav"});
  call->reply(json_of_result(task, input, options, result, form));
}

TaskOptions checked_options(const Pipeline& pipeline, const Json& parameters) {
  const TaskParameters known = pipeline.parameters();
  TaskOptions options = options_of_json(known, parameters);
  check_options(known, options);
  return options;
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
  const Pipeline& pipeline = *model.runner->find(model.task);
  const TaskOptions options = checked_options(pipeline, parameters);
  const TaskInput input = media_input(pipeline.record(), std::move(bytes));
  compute_task(call, model, model.task, {input}, parameters,
               [call, &pipeline, input, options](const std::vector<TaskResult>& results) {
                 reply_result(call, pipeline.record(), input, options, results.at(0), {});
               });
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

// Pictures beside a text by their bytes: no file of the server's is read.
void take_pictures(TaskInput& input) {
  auto* text = std::get_if<TextInput>(&input);
  if (!text) return;
  for (PictureSource& image : text->images)
    if (const auto* given = std::get_if<std::string>(&image)) image = FileBytes{media_bytes(*given, "inputs")};
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
  const TaskRecord& record = pipeline.record();
  const bool several = inputs.is_array() && !is_one_input(record, inputs);
  if (inputs.is_null()) refuse_field("inputs", "inputs: missing; expected what {} reads", task);
  if (several && inputs.empty()) refuse_field("inputs", "inputs: expected what {} reads, found an empty list", task);
  if (several && static_cast<int64_t>(inputs.size()) > call->services().options.max_client_batch_size)
    refuse_field("inputs", "inputs: expected at most {} inputs", call->services().options.max_client_batch_size);
  const TaskOptions options = checked_options(pipeline, parameters);
  std::vector<TaskInput> items;
  std::vector<CallForm> forms;
  for (const Json& each : several ? inputs : Json::array({inputs})) {
    items.push_back(input_of_json(record, each, options));
    take_pictures(items.back());
    forms.push_back(form_of_input(each, true));
  }
  const bool lists = task == "text-classification";
  compute_task(call, model, task, items, parameters,
               [call, &record, options, items, forms, several, lists](const std::vector<TaskResult>& results) {
                 if (!several && !lists) return reply_result(call, record, items[0], options, results.at(0), forms[0]);
                 std::vector<Json> list;
                 for (size_t i = 0; i < results.size(); ++i)
                   list.push_back(json_of_result(record, items[i], options, results[i], forms[i]));
                 call->reply(lists ? Json(std::move(list)) : joined_results(record, std::move(list)));
               });
}

void infer(const std::shared_ptr<Call>& call) {
  std::string name = call->request().path.substr(std::string("/models/").size());
  if (const size_t task = name.find("/pipeline/"); task != name.npos) name.resize(task);
  ServedModel& model = call->use_model(
      &name, [](const ModelFacts&) { return true; }, "task");
  if (model.adapters->has(name))
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
