// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/batches/routes.h"

#include <algorithm>
#include <charconv>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/api/request_json.h"
#include "apps/serve/batches/batches.h"
#include "apps/serve/http/multipart.h"

namespace transom::serve {
namespace {

constexpr std::string_view kFiles = "/v1/files/", kBatches = "/v1/batches/";

Batches& batches_of(const std::shared_ptr<Call>& call) {
  Batches* const batches = call->services().batches.get();
  if (!batches) throw ApiError(404, "the server keeps neither files nor batches; it does with --batch_folder");
  // Else whoever has one of the keys would read what the others sent.
  if (call->services().options.api_keys.size() > 1)
    throw ApiError(404, "files and batches belong to all clients, so there are none where several keys are given");
  return *batches;
}

// What stands behind the prefix of a path, and whether `ending` ends it.
std::string behind(const std::string& path, std::string_view prefix, std::string_view ending) {
  std::string_view rest = std::string_view(path).substr(prefix.size());
  if (!ending.empty()) {
    if (!rest.ends_with(ending)) throw ApiError(404, fmt::format("there is no path {}", quoted(path)));
    rest.remove_suffix(ending.size());
  }
  return std::string(rest);
}

// A page of `all`: `limit` of them behind the one that `after` names.
Json page_of(const std::shared_ptr<Call>& call, const std::vector<Json>& all, int64_t otherwise, int64_t most) {
  int64_t limit = otherwise;
  if (const auto text = query_parameter(call->request().query, "limit")) {
    const auto read = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (read.ec != std::errc() || read.ptr != text->data() + text->size() || limit < 1 || limit > most)
      refuse_field("limit", "limit: expected 1 to {}, found {}", most, quoted(*text, 40));
  }
  auto begin = all.begin();
  if (const auto after = query_parameter(call->request().query, "after")) {
    begin = std::ranges::find_if(all, [&](const Json& each) { return each["id"] == *after; });
    if (begin == all.end()) refuse_field("after", "after: there is no {}", quoted(*after, 60));
    ++begin;
  }
  const auto end = begin + std::min<std::ptrdiff_t>(limit, all.end() - begin);
  const Json data(std::vector<Json>(begin, end));
  return {{"object", "list"},
          {"data", data.is_null() ? Json::array() : data},
          {"first_id", begin == end ? Json() : (*begin)["id"]},
          {"last_id", begin == end ? Json() : (*std::prev(end))["id"]},
          {"has_more", end != all.end()}};
}

void create_file(const std::shared_ptr<Call>& call) {
  Batches& batches = batches_of(call);
  const std::string* const type = call->request().header("content-type");
  std::string purpose;
  std::optional<FormPart> file;
  for (FormPart& part : parse_multipart(call->request().body, type ? *type : "")) {
    if (part.name == "file") file = std::move(part);
    else if (part.name == "purpose") purpose = part.content;
    else refuse_field(part.name.substr(0, 60), "{}: not a field of this path", quoted(part.name, 60));
  }
  if (!file) refuse_field("file", "file: missing; expected a part of the form");
  if (purpose != "batch") refuse_field("purpose", "purpose: expected batch, found {}", quoted(purpose, 40));
  call->reply(json_of_file(batches.files().add(file->file_name.substr(0, 512), purpose, file->content)));
}

void list_files(const std::shared_ptr<Call>& call) {
  std::vector<Json> all;
  const auto purpose = query_parameter(call->request().query, "purpose");
  for (const StoredFile& file : batches_of(call).files().list())
    if (!purpose || file.purpose == *purpose) all.push_back(json_of_file(file));
  const std::string_view order = query_parameter(call->request().query, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    refuse_field("order", "order: expected asc or desc, found {}", quoted(order, 40));
  if (order == "asc") std::ranges::reverse(all);
  call->reply(page_of(call, all, 10'000, 10'000));
}

// A file's facts, or behind "/content" what is in it.
void show_file(const std::shared_ptr<Call>& call) {
  constexpr std::string_view kContent = "/content";
  FileStore& files = batches_of(call).files();
  const std::string& path = call->request().path;
  if (!path.ends_with(kContent)) return call->reply(json_of_file(files.find(behind(path, kFiles, ""))));
  call->respond({.status = 200,
                 .body = files.content(behind(path, kFiles, kContent)),
                 .content_type = "application/octet-stream"});
}

void delete_file(const std::shared_ptr<Call>& call) {
  const std::string id = behind(call->request().path, kFiles, "");
  batches_of(call).files().remove(id);
  call->reply({{"id", id}, {"object", "file"}, {"deleted", true}});
}

// OpenAI's limits, at four bytes a character. Each batch keeps its own, in memory and in a file that the next server
// reads.
void expect_small(const Json& metadata) {
  constexpr size_t kMost = 16, kLongestName = 4 * 64, kLongestValue = 4 * 512;
  if (metadata.size() > kMost)
    refuse_field("metadata", "metadata: expected at most {} fields, found {}", kMost, metadata.size());
  for (const auto& [name, value] : metadata.items())
    if (name.size() > kLongestName || !value.is_string() || value.get_ref<const std::string&>().size() > kLongestValue)
      refuse_field("metadata", "metadata.{}: expected a name of at most {} bytes and a text of at most {}",
                   quoted(name, 60), kLongestName, kLongestValue);
}

void create_batch(const std::shared_ptr<Call>& call) {
  Batches& batches = batches_of(call);
  const Json body = call->body();
  RequestFields fields(body);
  const auto file = fields.text("input_file_id", 256);
  if (!file) refuse_field("input_file_id", "input_file_id: missing; expected the id of a file");
  const auto endpoint =
      fields.choice("endpoint", {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"});
  if (!endpoint) refuse_field("endpoint", "endpoint: missing; expected a path such as /v1/chat/completions");
  if (!fields.choice("completion_window", {"24h"}))
    refuse_field("completion_window", "completion_window: missing; expected 24h");
  const Json* const metadata = fields.object("metadata");
  if (metadata) expect_small(*metadata);
  expect_known_fields(fields, call->request().path);
  call->reply(batches.create(*file, *endpoint, metadata ? *metadata : Json()));
}

void list_batches(const std::shared_ptr<Call>& call) { call->reply(page_of(call, batches_of(call).list(), 20, 100)); }

void show_batch(const std::shared_ptr<Call>& call) {
  call->reply(batches_of(call).find(behind(call->request().path, kBatches, "")));
}

void cancel_batch(const std::shared_ptr<Call>& call) {
  call->reply(batches_of(call).cancel(behind(call->request().path, kBatches, "/cancel")));
}

}  // namespace

std::vector<Route> batch_routes() {
  return {{"POST", "/v1/files", create_file, ErrorForm::kOpenAi, Route::kMedia},
          {"GET", "/v1/files", list_files},
          {"GET", std::string(kFiles), show_file, ErrorForm::kOpenAi, Route::kPrefix},
          {"DELETE", std::string(kFiles), delete_file, ErrorForm::kOpenAi, Route::kPrefix},
          {"POST", "/v1/batches", create_batch},
          {"GET", "/v1/batches", list_batches},
          {"GET", std::string(kBatches), show_batch, ErrorForm::kOpenAi, Route::kPrefix},
          {"POST", std::string(kBatches), cancel_batch, ErrorForm::kOpenAi, Route::kPrefix}};
}

}  // namespace transom::serve
