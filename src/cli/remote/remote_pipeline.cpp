// SPDX-License-Identifier: Apache-2.0
// transom run --server: each input is a request of Hugging Face's inference form.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "cli/remote/remote_server.h"

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
void expect_remote_options(const Json& parameters) {
  for (const char* option : {"prompt", "truncate_dim", "tokenize_kwargs", "truncation", "return_tensors", "top_k"})
    if (parameters.contains(option))
      fail(ErrorKind::kUsage, "--{}: not with --server, which has no such option", option);
}

class RemotePipeline final : public Pipeline {
 public:
  RemotePipeline(std::string task, client::HttpUrl server, std::string model, RequestHeaders headers)
      : task_(std::move(task)),
        server_(std::move(server)),
        path_("/models/" + encoded_path(model)),
        headers_(std::move(headers)),
        kind_(input_kind_of_task(task_)) {}

  // Classes of one text are a list also without top_k, as the pipeline itself has it.
  Json run(const Json& input, const Json& parameters) const override {
    Json result = run_all({input}, parameters).at(0);
    return task_ == "text-classification" && input.is_string() && result.is_object() ? Json::array({result}) : result;
  }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    std::vector<client::ClientRequest> requests;
    for (const Json& input : inputs)
      requests.push_back({.method = "POST", .path = path_, .body = body_of(input, parameters), .headers = headers_});
    std::vector<Json> results;
    for (const client::ClientReply& reply : answers_to(requests)) {
      if (reply.status != 200) fail("{}{}: status {}: {}", server_.text(), path_, reply.status, message_of(reply));
      Json result = parse_json(reply.body, server_.text() + path_);
      // Classes and vectors always come as a list of lists.
      const bool listed = task_ == "text-classification" || task_ == "feature-extraction";
      if (listed && result.is_array() && result.size() == 1 && result[0].is_array()) result = Json(result[0]);
      if (gives_best_class(parameters) && result.is_array() && result.size() == 1) result = Json(result[0]);
      results.push_back(std::move(result));
    }
    return results;
  }

  TaskParameters parameters() const override { return parameters_of_task(task_); }
  bool is_one_input(const Json&) const override { return false; }

 private:
  bool gives_best_class(const Json& parameters) const {
    return task_ == "text-classification" && !parameters.contains("top_k") && !parameters.contains("return_all_scores");
  }

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

  std::string body_of(const Json& input, Json parameters) const {
    if (task_ == "feature-extraction" && !parameters.contains("pooling"))
      fail(ErrorKind::kUsage, "--pooling auto is missing: a server gives one vector a text");
    if (task_ == "feature-extraction" || task_ == "sentence-similarity") {
      expect_remote_options(parameters);
      if (bool_parameter(parameters, "normalize_embeddings", false)) parameters["normalize"] = true;
      parameters.erase("normalize_embeddings");
    }
    if (gives_best_class(parameters)) parameters["top_k"] = 1;
    parameters.erase("batch_size");
    Json body{{"inputs", input}, {"parameters", std::move(parameters)}};
    if (kind_ == InputKind::kImage || kind_ == InputKind::kAudio) {
      if (!input.is_string()) fail("expected the name of a file, found {}", quoted(input.dump()));
      body["inputs"] = to_base64(read_file(input.get<std::string>(), 128 << 20));
    }
    return dump_json(body);
  }

  std::string task_;
  client::HttpUrl server_;
  std::string path_;
  RequestHeaders headers_;
  InputKind kind_;
};

}  // namespace

std::unique_ptr<Pipeline> remote_pipeline(const std::string& task, const RemoteOptions& remote,
                                          const std::string& model) {
  const client::HttpUrl server = client::parse_http_url(*remote.server, "--server");
  const RequestHeaders headers = key_headers(remote.api_key);
  const std::string name = model_for_task(server, headers, model, canonical_task(task));
  return std::make_unique<RemotePipeline>(task, server, name, headers);
}

}  // namespace transom
