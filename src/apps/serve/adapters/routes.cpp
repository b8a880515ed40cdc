// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/adapters/routes.h"

#include <mutex>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/generation/generation_request.h"
#include "apps/serve/models/model_pool.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"

namespace transom::serve {
namespace {

// One change at a time; requests go on meanwhile.
std::mutex& changing() {
  static std::mutex mutex;
  return mutex;
}

void expect_allowed(const ServeOptions& options) {
  if (options.adapter_folder.empty())
    throw ApiError(404, "adapters are neither loaded nor unloaded over HTTP; the server allows it with --lora_folder");
}

std::string adapter_name(RequestFields& fields, const char* missing) {
  std::string name = fields.text("lora_name", 256).value_or("");
  if (name.empty()) throw ApiError(400, missing, "lora_name");
  return name;
}

// The directory that a request names, which lies in the folder whatever links and dots there are in it.
fs::path adapter_directory(const std::string& path, const std::string& folder) {
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  const fs::path found = failed ? fs::path() : fs::canonical(root / path, failed);
  const auto [end, in_found] = std::mismatch(root.begin(), root.end(), found.begin(), found.end());
  if (failed || end != root.end() || in_found == found.end())
    throw ApiError(
        404, fmt::format("no adapter found for {}: expected a directory in the server's --lora_folder", quoted(path)),
        "lora_path", "adapter_not_found");
  return found;
}

// The model that gets it: the one of `base_model_name`, else the first that writes.
ServedModel& model_to_adapt(const std::shared_ptr<Call>& call, RequestFields& fields) {
  const auto name = fields.text("base_model_name");
  return call->use_model(name ? &*name : nullptr, can_generate, "adapters");
}

void expect_new_name(const std::string& name, const Services& services, bool replaces) {
  for (const ModelFacts* facts : services.models->facts()) {
    if (facts->name == name)
      throw ApiError(400, fmt::format("The lora adapter name '{}' conflicts with a served base model.", name),
                     "lora_name");
    if (!replaces && facts->adapters->has(name))
      throw ApiError(400,
                     fmt::format("The lora adapter '{}' has already been loaded. If you want to load the adapter in "
                                 "place, set 'load_inplace' to True.",
                                 name),
                     "lora_name");
  }
}

// vLLM answers with a sentence.
void answer_with(const std::shared_ptr<Call>& call, const std::string& text) {
  log(LogLevel::kInfo, text);
  call->respond({.status = 200, .body = text, .content_type = "text/plain; charset=utf-8"});
}

}  // namespace

void load_lora_adapter(const std::shared_ptr<Call>& call) {
  const ServeOptions& options = call->services().options;
  expect_allowed(options);
  const Json body = call->body();
  RequestFields fields(body);
  constexpr const char* kMissing = "Both 'lora_name' and 'lora_path' must be provided.";
  const std::string name = adapter_name(fields, kMissing), path = fields.text("lora_path", 4096).value_or("");
  if (path.empty()) throw ApiError(400, kMissing, "lora_path");
  const bool replaces = fields.boolean("load_inplace").value_or(false);
  const std::lock_guard lock(changing());
  ServedModel& model = model_to_adapt(call, fields);
  fields.integer("lora_int_id", INT64_MIN, INT64_MAX);  // vLLM's own number
  expect_known_fields(fields, call->request().path);
  expect_new_name(name, call->services(), replaces);
  const bool known = model.adapters->has(name);
  if (!known && model.adapters->list().size() >= ServeOptions::kMostAdapters)
    throw ApiError(400, fmt::format("{} adapters are loaded, at most {} may be", model.adapters->list().size(),
                                    ServeOptions::kMostAdapters));
  const fs::path directory = adapter_directory(path, options.adapter_folder);
  try {
    model.generator->load_adapter(name, directory.string(), replaces);
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("the adapter of {} is not taken: {}", quoted(path), error.what()), "lora_path");
  }
  model.adapters->add(name);
  answer_with(call, fmt::format("Success: LoRA adapter '{}' added successfully.", name));
}

void unload_lora_adapter(const std::shared_ptr<Call>& call) {
  expect_allowed(call->services().options);
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = adapter_name(fields, "'lora_name' needs to be provided to unload a LoRA adapter.");
  fields.integer("lora_int_id", INT64_MIN, INT64_MAX);
  expect_known_fields(fields, call->request().path);
  const std::lock_guard lock(changing());
  for (const ModelFacts* facts : call->services().models->facts()) {
    if (!facts->adapters->has(name)) continue;
    ServedModel& model = call->use_model(&facts->name, can_generate, "adapters");
    model.adapters->remove(name);  // nobody new is sent to it
    model.generator->unload_adapter(name);
    return answer_with(call, fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
  }
  throw ApiError(404, fmt::format("The lora adapter '{}' cannot be found.", name), "lora_name");
}

std::vector<Route> adapter_routes() {
  return {{"POST", "/v1/load_lora_adapter", load_lora_adapter},
          {"POST", "/v1/unload_lora_adapter", unload_lora_adapter}};
}

}  // namespace transom::serve
