// SPDX-License-Identifier: Apache-2.0
// GET /api/tags, /api/ps and /api/version, POST /api/show: which models there are.
#include <openssl/evp.h>

#include <array>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/models/model_pool.h"
#include "apps/serve/models/served_model.h"
#include "apps/serve/ollama/routes.h"

namespace transom::serve {
namespace {

// Clients cut it without looking at its length. It stands for the name: files are not read for it.
std::string digest_of(const std::string& name) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  if (EVP_Digest(name.data(), name.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    fail(ErrorKind::kInternal, "SHA-256 is not available");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Json details_of(const ModelFacts& facts) {
  return {{"parent_model", ""},         {"format", facts.root.ends_with(".gguf") ? "gguf" : "safetensors"},
          {"family", facts.model_type}, {"families", Json::array({facts.model_type})},
          {"parameter_size", ""},       {"quantization_level", facts.dtype}};
}

Json item_of(const ModelFacts& facts) {
  return {{"name", facts.name},
          {"model", facts.name},
          {"modified_at", ollama_time(facts.created)},
          {"size", facts.weight_bytes},
          {"digest", digest_of(facts.name)},
          {"details", details_of(facts)}};
}

void tags(const std::shared_ptr<Call>& call) {
  Json list = Json::array();
  for (const ModelFacts* facts : call->services().models->facts()) list.push_back(item_of(*facts));
  call->reply({{"models", std::move(list)}});
}

void running(const std::shared_ptr<Call>& call) {
  Json list = Json::array();
  ModelPool& pool = *call->services().models;
  for (const ModelFacts* facts : pool.facts())
    pool.look_at(*facts, [&](const ServedModel&) {
      Json item = item_of(*facts);
      item["expires_at"] = "9999-12-31T00:00:00Z";
      item["size_vram"] = 0;
      if (facts->max_length) item["context_length"] = *facts->max_length;
      list.push_back(std::move(item));
    });
  call->reply({{"models", std::move(list)}});
}

void show(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  const std::string name = ollama_model_name(fields, call->services());
  expect_known_fields(fields, "/api/show");
  for (const ModelFacts* facts : call->services().models->facts()) {
    if (!facts->has_name(name)) continue;
    Json about{{"general.architecture", facts->model_type}, {"general.name", facts->name}};
    if (facts->max_length) about[facts->model_type + ".context_length"] = *facts->max_length;
    Json can = Json::array();
    if (facts->writes) can = Json::array({"completion", "tools"});
    if (facts->embeds) can.push_back("embedding");
    return call->reply({{"license", ""},
                        {"modelfile", ""},
                        {"parameters", ""},
                        {"template", ""},
                        {"details", details_of(*facts)},
                        {"model_info", std::move(about)},
                        {"capabilities", std::move(can)},
                        {"modified_at", ollama_time(facts->created)}});
  }
  throw ApiError(404, fmt::format("model {} not found", quoted(name)));
}

void version(const std::shared_ptr<Call>& call) { call->reply({{"version", call->services().options.version}}); }

}  // namespace

std::vector<Route> ollama_routes() {
  return {{"GET", "/api/tags", tags, ErrorForm::kOllama},
          {"GET", "/api/ps", running, ErrorForm::kOllama},
          {"GET", "/api/version", version, ErrorForm::kOllama, Route::kAtOnce},
          {"POST", "/api/show", show, ErrorForm::kOllama},
          {"POST", "/api/chat", ollama_chat, ErrorForm::kOllama, Route::kMedia},
          {"POST", "/api/generate", ollama_generate, ErrorForm::kOllama, Route::kMedia},
          {"POST", "/api/embed", ollama_embed, ErrorForm::kOllama},
          {"POST", "/api/embeddings", ollama_embeddings, ErrorForm::kOllama}};
}

}  // namespace transom::serve
