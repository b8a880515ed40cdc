// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/remote/remote_server.h"

#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {

void RemoteOptions::add_to(Command& command) {
  command.options.push_back({.name = "--server",
                             .value = &server,
                             .help = "URL of a running server, which has the model; --model is its name there",
                             .group = kModelGroup});
  command.options.push_back({.name = "--api_key",
                             .value = &api_key,
                             .help = "key that the server wants (also OPENAI_API_KEY)",
                             .group = kModelGroup});
}

void RemoteOptions::expect_model(const std::string& model) const {
  if (!server && model.empty()) fail(ErrorKind::kUsage, "--model is missing: {}", kModelHelp);
  if (!server && api_key) fail(ErrorKind::kUsage, "--api_key: there is no --server that would want it");
}

void RemoteOptions::refuse_local(const ModelOptions& source, const DeviceOptions& device,
                                 const PrecisionOptions& precision) const {
  if (!server) return;
  const ModelOptions plain_source;
  const PrecisionOptions plain;
  for (const auto& [flag, given] :
       {std::pair("--device", !device.device.empty()), std::pair("--mode", !device.mode.empty()),
        std::pair("--dtype", precision.dtype != plain.dtype),
        std::pair("--quantization", precision.quantization != plain.quantization),
        std::pair("--activations", precision.activations != plain.activations),
        std::pair("--revision", source.revision != plain_source.revision),
        std::pair("--token", source.token.has_value()), std::pair("--cache_dir", source.cache_dir.has_value()),
        std::pair("--local_files_only", source.local_files_only)})
    if (given) fail(ErrorKind::kUsage, "{}: not with --server, which has loaded its models already", flag);
}

namespace {

ServedModel served_model_of(const Json& item) {
  ServedModel model{.name = item["id"].get<std::string>(), .generation_config = ""};
  if (item.contains("generation_config") && item["generation_config"].is_object())
    model.generation_config = dump_json(item["generation_config"]);
  const Json tasks = item.value("tasks", Json()), task = item.value("task", Json());
  if (task.is_string()) model.tasks.push_back(task.get<std::string>());
  if (tasks.is_array())
    for (const Json& each : tasks)
      if (each.is_string() && each != task) model.tasks.push_back(each.get<std::string>());
  return model;
}

}  // namespace

std::vector<ServedModel> remote_models(const client::HttpUrl& server, const RequestHeaders& headers) {
  const std::string where = server.text() + "/v1/models";
  const client::ClientReply reply = client::fetch(server, {.path = "/v1/models", .headers = headers});
  if (reply.status != 200) fail("{}: status {}: {}", where, reply.status, quoted(reply.body, 200));
  const Json models = parse_json(reply.body, where);
  if (!models.is_object() || !models.contains("data") || !models["data"].is_array())
    fail("{}: expected a list of models, found {}", where, quoted(reply.body, 200));
  std::vector<ServedModel> list;
  for (const Json& model : models["data"])
    if (model.is_object() && model.contains("id") && model["id"].is_string()) list.push_back(served_model_of(model));
  return list;
}

ServedModel remote_model(const client::HttpUrl& server, const RequestHeaders& headers, const std::string& name) {
  for (ServedModel& model : remote_models(server, headers))
    if (name.empty() || model.name == name) return std::move(model);
  if (name.empty()) fail("{}/v1/models: the server has no model", server.text());
  return {.name = name, .generation_config = ""};
}

RequestHeaders key_headers(const std::optional<std::string>& api_key) {
  const char* environment = std::getenv("OPENAI_API_KEY");
  const std::string key = api_key ? *api_key : environment ? environment : "";
  if (key.empty()) return {};
  return {{"Authorization", "Bearer " + key}};
}

bool Patience::is_over() const { return client::Clock::now() >= until_; }

void Patience::wait() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

std::string served_model(const client::HttpUrl& server, const client::ClientOptions& connection,
                         const RequestHeaders& headers, double patience, const std::string& name) {
  const std::string where = server.text() + "/v1/models";
  const auto until = client::Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(patience * 1000));
  while (true) {
    client::ClientReply reply;
    try {
      reply = client::fetch(server, {.path = "/v1/models", .headers = headers}, connection);
    } catch (const Error&) {
      if (client::Clock::now() >= until) throw;
    }
    const bool loading = reply.status == 0 || reply.status == 503;
    if (!name.empty() && !loading) return name;
    if (reply.status == 200) {
      const Json models = parse_json(reply.body, where);
      if (!models.is_object() || !models.contains("data") || !models["data"].is_array() || models["data"].empty() ||
          !models["data"][0].is_object() || !models["data"][0].contains("id") || !models["data"][0]["id"].is_string())
        fail("{}: expected a list of models, found {}; name one with --model", where, quoted(reply.body, 200));
      return models["data"][0]["id"].get<std::string>();
    }
    if (!loading || client::Clock::now() >= until)
      fail("{}: status {}: {}{}", where, reply.status, quoted(reply.body, 200),
           loading ? "" : "; name a model with --model");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

}  // namespace transom
