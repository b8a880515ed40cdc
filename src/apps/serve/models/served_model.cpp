// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/models/served_model.h"

#include <ctime>

#include "apps/serve/workers/generation_worker.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "files/checkpoint/weight_files.h"
#include "files/config/model_type.h"
#include "files/hub/adapters.h"
#include "files/hub/resolve.h"
#include "models/diffusion/pipeline_directory.h"
#include "models/family.h"
#include "models/loading/adapters/adaptation.h"
#include "transom/config.h"
#include "work/pipelines/diffusion/image_to_image.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/text/pair_activation.h"
#include "work/pipelines/text/pair_ranking.h"
#include "work/pipelines/text/sparse_embedding.h"

namespace transom::serve {

ServedModel::ServedModel() = default;
ServedModel::~ServedModel() = default;

std::string Embedder::options_of(std::optional<bool> normalize, int64_t left_out) {
  return Json{{"normalize", normalize ? Json(*normalize) : Json()}, {"left_out", left_out}}.dump();
}

namespace {

// A server opens no files that clients name.
void expect_no_path(const TaskParameter& parameter, const TaskOptions::Value& value) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text && text->starts_with("data:")) return;
  refuse_field(parameter.name, "{}: this server opens no files that requests name: expected a data: URL",
               parameter.name);
}

}  // namespace

TaskRunner::Terms TaskRunner::terms_of(const std::string& task, const Json& parameters) const {
  const Pipeline& pipeline = *find(task);
  const TaskParameters known = pipeline.parameters();
  auto options = std::make_shared<const TaskOptions>(options_of_json(known, parameters));
  check_options(known, *options);
  for (const TaskParameter& parameter : known)
    if (parameter.is_path && is_given(*options, parameter.name))
      expect_no_path(parameter, *options->find(parameter.name));
  if (const auto company = pipeline.company(*options))
    return {std::move(options), task + '\n' + company->key, company->cost};
  return {std::move(options), task + '\n' + parameters.dump(), std::nullopt};
}

std::vector<TaskResult> TaskRunner::run(std::vector<AskedTask>& asked, const std::string& shared) {
  const Pipeline* pipeline = find(shared.substr(0, shared.find('\n')));
  if (!pipeline) fail(ErrorKind::kInternal, "a task without a pipeline");
  const bool alone = asked.size() == 1;
  std::vector<TaskInput> inputs;
  for (AskedTask& each : asked) {
    if (alone) inputs.push_back(std::move(each.input));  // which may be a sound of hours
    else inputs.push_back(each.input);
  }
  TaskOptions given = *asked[0].options;
  const std::lock_guard lock(computing);
  if (alone) return run_pipeline(*pipeline, inputs, given);
  if (pipeline->company(given)) {
    std::vector<TaskOptions> own;
    for (const AskedTask& each : asked) own.push_back(*each.options);
    return pipeline->run_each(inputs, own);
  }
  given.set("batch_size", static_cast<int64_t>(inputs.size()));
  return run_pipeline(*pipeline, inputs, given);
}

const Pipeline* TaskRunner::find(const std::string& task) const {
  for (const auto& [name, pipeline] : pipelines)
    if (name == task) return pipeline.get();
  return nullptr;
}

namespace {

// Whether a classifier says of two texts if one follows from the other.
bool knows_entailment(const Json& config) {
  const auto labels = config.find("id2label");
  if (labels == config.end() || !labels->is_object()) return false;
  for (const auto& [id, label] : labels->items())
    if (label.is_string() && lower_case(label.get<std::string>()).starts_with("entail")) return true;
  return false;
}

// [T, D] of each, which have one length.
std::vector<std::vector<float>> states_of(const TextModel& model, const std::vector<Encoding>& encodings) {
  auto rows = model.rows(
      encodings.size(), [&](size_t i) { return std::vector<Encoding>{encodings[i]}; }, {"last_hidden_state"},
      TextModel::Unit::kToken, static_cast<int64_t>(encodings.size()));
  std::vector<std::vector<float>> states;
  for (auto& row : rows) states.push_back(std::move(row.at(0).outputs.at(0)));
  return states;
}

void load_embedder(ServedModel& served, const std::string& directory, const ServeOptions& options) {
  LoadOptions load = options.load;
  load.task = "feature-extraction";
  load.batch_invariant = true;  // company does not change a vector's bits
  const auto model = std::make_shared<SentenceModel>(SentenceModel::load(directory, load));
  served.tokenizer = model->text().tokenizer;
  served.max_length = model->max_length();
  served.pooling = model->modules().pooling.size() == 1 ? name_of(model->modules().pooling[0]) : "several";
  served.embedder.emplace();
  served.embedder->model = model;
  // Once through, so that the first client does not wait.
  model->embed(model->encode({"a"}), {}, 0);
  served.embedder->queue = std::make_unique<EmbeddingQueue>(
      BatchLimits{options.max_batch_tokens, options.max_batch_requests, 16 * options.max_client_batch_size},
      [model](const std::vector<Encoding>& encodings, const std::string& how) {
        if (how == Embedder::kStates && model->modules().sparse)
          fail(ErrorKind::kUnsupported, "this model gives weights of tokens and no states");
        if (how == Embedder::kStates) return states_of(model->text(), encodings);
        const Json given = Json::parse(how);
        EmbeddingOptions chosen;
        if (given["normalize"].is_boolean()) chosen.normalize = given["normalize"].get<bool>();
        return model->embed(encodings, chosen, given["left_out"].get<int64_t>());
      });
}

// config.json, or model_index.json of a pipeline of diffusers; models that are graphs may have neither.
Json description_in(const fs::path& folder) {
  for (const char* name : {kPipelineIndexName, "config.json"})
    if (path_exists(folder / name)) return read_json(folder / name);
  return Json::object();
}

void load_runner(ServedModel& served, const std::string& directory, const ServeOptions& options) {
  served.runner.emplace();
  TaskRunner& runner = *served.runner;
  const fs::path folder = directory_of_model(directory);
  LoadOptions load = options.load;
  load.batch_invariant = true;  // company does not change an answer's bits
  runner.pipelines.emplace_back(served.task, make_pipeline(served.task, directory, options.hub, load));
  if (auto change = picture_change_beside(*runner.pipelines[0].second))  // by the same weights
    runner.pipelines.emplace_back("image-to-image", std::move(change));
  Json config = description_in(folder);
  if (holds_adapters(directory)) {  // which bring classes of their own
    config["id2label"] = Json::object();
    const std::vector<std::string> names = runner.pipelines[0].second->model()->labels();
    for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
  }
  if (served.task == "text-classification") runner.pair_activation = pair_activation_of(folder);
  if (served.task == "text-classification" && knows_entailment(config))
    runner.pipelines.emplace_back("zero-shot-classification",
                                  make_pipeline("zero-shot-classification", directory, options.hub, load));
  if (const auto labels = config.find("id2label"); labels != config.end() && labels->is_object())
    for (const auto& [id, label] : labels->items())
      if (label.is_string()) served.labels.push_back(label.get<std::string>());
  // Of models that write what they hear: the tokens that they have places for.
  if (const auto places = config.find("max_target_positions"); places != config.end() && places->is_number_integer())
    served.max_length = places->get<int64_t>();
  const InputKind input = need_task(served.task).input;
  // Texts that are spoken are no tokens: who speaks makes phonemes or characters of them.
  const bool speaks = need_task(served.task).result == ResultKind::kSound;
  if (!is_media(input) && !speaks && !is_pipeline_directory(folder)) {
    served.tokenizer = Tokenizer::from_pretrained(directory);
    const auto* ranking = dynamic_cast<const PairRanking*>(runner.pipelines[0].second.get());
    served.max_length =
        ranking ? ranking->max_length() : longest_input(*runner.pipelines[0].second->model(), *served.tokenizer);
  }
  runner.queue = std::make_unique<TaskQueue>(
      BatchLimits{options.max_batch_tokens, options.max_batch_requests, 16 * options.max_client_batch_size},
      [&runner](std::vector<AskedTask>& asked, const std::string& shared) { return runner.run(asked, shared); });
  const TextModel* masked = runner.pipelines[0].second->text_model();
  if (!masked) return;
  constexpr int64_t kTokensTogether = 1024;  // each has a score of every token of the vocabulary
  runner.sparse =
      std::make_unique<EmbeddingQueue>(BatchLimits{std::min(options.max_batch_tokens, kTokensTogether),
                                                   options.max_batch_requests, 16 * options.max_client_batch_size},
                                       [&runner, masked, pooling = sparse_pooling_of(folder)](
                                           const std::vector<Encoding>& encodings, const std::string& /*how*/) {
                                         const std::lock_guard lock(runner.computing);
                                         return sparse_embeddings(*masked, encodings, pooling);
                                       });
}

}  // namespace

int64_t weight_bytes_of(const ModelSource& source, const ServeOptions& options) {
  int64_t bytes = 0;
  const fs::path folder = resolve_model(source.path, options.hub), base = base_of_adapters(folder);
  std::vector<fs::path> files = weight_files(folder);
  if (base != folder)
    for (const fs::path& file : weight_files(base)) files.push_back(file);
  if (is_pipeline_directory(folder))
    for (const fs::path& part : list_directory(folder))
      if (directory_exists(part))
        for (const fs::path& file : weight_files(part)) files.push_back(file);
  for (const fs::path& file : files) {
    std::error_code ignored;
    const auto size = fs::file_size(file, ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

std::unique_ptr<ServedModel> load_served_model(const ModelSource& source, const ServeOptions& options) {
  const std::string directory = resolve_model(source.path, options.hub).string();
  auto served = std::make_unique<ServedModel>();
  served->name = source.name;
  served->root = source.path;
  served->created = std::time(nullptr);
  served->task = options.task.empty() ? task_of_model(directory) : options.task;
  served->dtype = options.load.dtype.name();
  served->model_type = model_type_of(description_in(directory_of_model(directory)));
  if (served->task == "text-generation") load_generator(*served, directory, options);
  else if (served->task == "feature-extraction" || served->task == "sentence-similarity")
    load_embedder(*served, directory, options);
  else load_runner(*served, directory, options);
  served->writes = served->generator != nullptr;
  served->embeds = served->embedder.has_value();
  if (served->embeds) served->tasks = {"feature-extraction", "sentence-similarity"};
  if (served->writes) served->tasks = {served->task};
  served->tokenizes = served->tokenizer.has_value();
  if (served->generator)
    for (const auto& [name, folder] : options.adapters) served->adapters->add(name);
  if (served->runner)
    for (const auto& [task, pipeline] : served->runner->pipelines) served->tasks.push_back(task);
  return served;
}

}  // namespace transom::serve
