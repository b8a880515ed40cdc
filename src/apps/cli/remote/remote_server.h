// SPDX-License-Identifier: Apache-2.0
// A running server in place of a model that this process loads: --server.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/command.h"
#include "tools/client/http_client.h"
#include "work/pipelines/pipeline.h"

namespace transom {

struct RemoteOptions {
  std::optional<std::string> server, api_key;  // a URL; the key, else OPENAI_API_KEY of the environment
  void add_to(Command& command);
  // Without --server the model is needed, as ever.
  void expect_model(const std::string& model) const;
  // With --server: refuses what is said of a model in this process, by its flag.
  void refuse_local(const ModelOptions& source, const DeviceOptions& device, const PrecisionOptions& precision) const;
};

using RequestHeaders = std::vector<std::pair<std::string, std::string>>;
// Authorization with that key, or with OPENAI_API_KEY; empty without one.
RequestHeaders key_headers(const std::optional<std::string>& api_key);
// How long to ask again where a server answers 503: it is loading the model, or making room for it.
class Patience {
 public:
  bool is_over() const;
  void wait();  // a second, as Retry-After says

 private:
  client::Clock::time_point until_ = client::Clock::now() + std::chrono::minutes(5);
};
// Asks /v1/models until the server answers, for at most `patience` seconds, and returns `name`, or the first one listed
// where that is empty; servers that do not list their models have to be given a name. Throws Error that names the URL.
std::string served_model(const client::HttpUrl& server, const client::ClientOptions& connection,
                         const RequestHeaders& headers, double patience, const std::string& name);

// What a server says of a model in /v1/models.
struct ServedModel {
  std::string name;
  std::string generation_config;        // JSON; empty: the server does not say
  std::vector<std::string> tasks = {};  // what it answers; empty: the server does not say
};
// All that it lists.
std::vector<ServedModel> remote_models(const client::HttpUrl& server, const RequestHeaders& headers);
// The model of that name; without one the first. Where the server does not list the name, there is nothing but that.
ServedModel remote_model(const client::HttpUrl& server, const RequestHeaders& headers, const std::string& name);

// The pipeline of a task on a server of `transom serve`, by Hugging Face's inference form; an empty `model` is the
// first of the server that has the task. Refuses a model that is for another task: its answer would be none of this
// one.
std::unique_ptr<Pipeline> remote_pipeline(const std::string& task, const RemoteOptions& remote,
                                          const std::string& model);

// What `transom generate` asks a server of OpenAI's interface: the fields of a generation configuration that were
// given, by their names. Where they say nothing, what the checkpoint's configuration says holds, as it does here.
using GivenFields = std::vector<std::pair<std::string, std::string>>;
// Each prompt goes on as text; `messages` (JSON, "" none) as a chat. Prints what is written as it comes, or with
// `json` [{"generated_text": ...}] at the end. Throws Error for fields that the interface does not have.
void remote_generate(const RemoteOptions& remote, const std::string& model, const std::vector<std::string>& prompts,
                     const std::string& messages, const GivenFields& fields, bool json);

}  // namespace transom
