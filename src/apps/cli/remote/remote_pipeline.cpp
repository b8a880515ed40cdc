// SPDX-License-Identifier: Apache-2.0
// transom run --server: each input is a request of Hugging Face's inference form.
#include <algorithm>
#include <numeric>

#include "apps/cli/remote/remote_server.h"
#include "base/error.h"
#include "base/json/json.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

constexpr double kPatience = 300;  // seconds in which a server may load its model
constexpr size_t kAtOnce = 32;     // requests under way, which the server puts into batches

std::string encoded_path(const std::string& name) {
  std::string text;
  for (const char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
        c == '.' || c == '/' || c == '~')
      text += c;
    else text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return text;
}

std::string message_of(const client::ClientReply& reply) {
  const Json json = Json::parse(reply.body, nullptr, false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_string()) return error.get<std::string>();
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"].get<std::string>();
  }
  return quoted(reply.body, 200);
}

// The model that answers; without a name the first that has the task. A server that does not list its models, or not
// their tasks, is believed.
std::string model_for_task(const client::HttpUrl& server, const RequestHeaders& headers, const std::string& name,
                           const std::string& task) {
  const std::string first = served_model(server, {}, headers, kPatience, name);
  std::vector<ServedModel> models;
  try {
    models = remote_models(server, headers);
  } catch (const Error&) {
    if (name.empty()) throw;
    return name;
  }
  const auto answers = [&](const ServedModel& model) {
    return model.tasks.empty() || std::find(model.tasks.begin(), model.tasks.end(), task) != model.tasks.end();
  };
  for (const ServedModel& model : models) {
    if (!name.empty() && model.name != name) continue;
    if (answers(model)) return model.name;
    if (!name.empty())
      fail("{}: the model {} is for {} and has no {}", server.text(), quoted(name), model.tasks.front(), task);
  }
  if (name.empty()) fail("{}: no model of this server has {}; the first is {}", server.text(), task, quoted(first));
  return name;
}

// What a server does not take from the request of a vector.
void expect_remote_options(const TaskOptions& options) {
  for (const char* option : {"prompt", "truncate_dim", "tokenize_kwargs", "truncation", "return_tensors", "top_k"})
    if (options.contains(option)) fail(ErrorKind::kUsage, "--{}: not with --server, which has no such option", option);
}

class RemotePipeline final : public Pipeline {
 public:
  RemotePipeline(const TaskRecord& task, client::HttpUrl server, const std::string& model, RequestHeaders headers)
      : server_(std::move(server)), path_("/models/" + encoded_path(model)), headers_(std::move(headers)) {
    set_record(task);
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<client::ClientRequest> requests;
    for (const TaskInput& input : inputs)
      requests.push_back({.method = "POST", .path = path_, .body = body_of(input, options), .headers = headers_});
    std::vector<TaskResult> results;
    for (const client::ClientReply& reply : answers_to(requests)) {
      if (reply.status != 200) fail("{}{}: status {}: {}", server_.text(), path_, reply.status, message_of(reply));
      Json result = parse_json(reply.body, server_.text() + path_);
      // Classes and vectors always come as a list of lists.
      const bool listed = is_plain_classification() || gives_vectors();
      if (listed && result.is_array() && result.size() == 1 && result[0].is_array()) result = Json(result[0]);
      results.push_back(result_of_json(record(), result));
    }
    return results;
  }

 private:
  bool is_plain_classification() const {
    return record().input == InputKind::kText && record().result == ResultKind::kClasses &&
           record().json.classes != JsonForm::Classes::kLists;
  }
  bool gives_vectors() const { return record().input == InputKind::kText && record().result == ResultKind::kVectors; }

  // Those that are refused while the server loads the model are sent again.
  std::vector<client::ClientReply> answers_to(const std::vector<client::ClientRequest>& requests) const {
    std::vector<client::ClientReply> replies(requests.size());
    std::vector<size_t> open(requests.size());
    std::iota(open.begin(), open.end(), size_t{0});
    for (Patience patience;; patience.wait()) {
      std::vector<client::ClientRequest> sent;
      for (const size_t i : open) sent.push_back(requests[i]);
      std::vector<client::ClientReply> came = client::fetch_all(server_, std::move(sent), kAtOnce);
      for (size_t i = 0; i < came.size(); ++i) replies[open[i]] = std::move(came[i]);
      std::erase_if(open, [&](size_t i) { return replies[i].status != 503; });
      if (open.empty() || patience.is_over()) return replies;
    }
  }

  std::string body_of(const TaskInput& input, const TaskOptions& options) const {
    if (gives_vectors() && !options.contains("pooling"))
      fail(ErrorKind::kUsage, "--pooling auto is missing: a server gives one vector a text");
    Json parameters = json_of_options(options);
    if (gives_vectors() || record().result == ResultKind::kSimilarities) {  // what an embedding model answers
      expect_remote_options(options);
      if (flag_option(options, "normalize_embeddings", false)) parameters["normalize"] = true;
      parameters.erase("normalize_embeddings");
    }
    // A server gives all classes where nobody says how many.
    if (is_plain_classification() && !options.contains("top_k") && !options.contains("return_all_scores"))
      parameters["top_k"] = 1;
    parameters.erase("batch_size");
    return dump_json(Json{{"inputs", json_of_input(record(), input)}, {"parameters", std::move(parameters)}});
  }

  client::HttpUrl server_;
  std::string path_;
  RequestHeaders headers_;
};

}  // namespace

std::unique_ptr<Pipeline> remote_pipeline(const std::string& task, const RemoteOptions& remote,
                                          const std::string& model) {
  const client::HttpUrl server = client::parse_http_url(*remote.server, "--server");
  const RequestHeaders headers = key_headers(remote.api_key);
  const std::string name = model_for_task(server, headers, model, canonical_task(task));
  return std::make_unique<RemotePipeline>(need_task(task), server, name, headers);
}

}  // namespace transom
