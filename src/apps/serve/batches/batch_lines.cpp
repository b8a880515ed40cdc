// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/batches/batch_lines.h"

#include "apps/serve/api/request_json.h"
#include "apps/serve/openai/identifiers.h"

namespace transom::serve {
namespace {

constexpr size_t kMostErrors = 100, kLongestId = 512;

// Why a line is no request; empty: it is one.
struct LineRefusal {
  std::string code, message, param;
};

LineRefusal read_line(std::string_view text, const std::string& endpoint, std::set<std::string>& ids, BatchLine& line) {
  Json json;
  try {
    json = parse_request_json(text);
  } catch (const ApiError& error) {
    return {"invalid_json_line", fmt::format("This line is not parseable as valid JSON: {}", error.what()), ""};
  }
  if (!json.is_object()) return {"invalid_json_line", "expected an object", ""};
  for (const char* name : {"custom_id", "method", "url", "body"})
    if (!json.contains(name))
      return {"missing_required_parameter", fmt::format("Missing required parameter: '{}'.", name), name};
  for (const auto& [name, value] : json.items())
    if (name != "custom_id" && name != "method" && name != "url" && name != "body")
      return {"unknown_parameter", fmt::format("Unknown parameter: {}.", quoted(name, 60)),
              std::string(name.substr(0, 60))};
  const Json &id = json["custom_id"], &body = json["body"];
  if (!id.is_string() || id.get_ref<const std::string&>().empty() ||
      id.get_ref<const std::string&>().size() > kLongestId)
    return {"invalid_custom_id", fmt::format("custom_id: expected a text of 1 to {} bytes", kLongestId), "custom_id"};
  if (json["method"] != "POST") return {"invalid_method", "method: expected POST", "method"};
  if (json["url"] != endpoint)
    return {"mismatched_endpoint", fmt::format("url: expected {}, the endpoint of the batch", endpoint), "url"};
  if (!body.is_object()) return {"invalid_body", "body: expected an object", "body"};
  if (body.contains("stream") && body["stream"] != false && !body["stream"].is_null())
    return {"invalid_body", "body.stream: a batch has no streams", "body"};
  line = {id, compact(body)};
  if (!ids.insert(line.custom_id).second)
    return {"duplicate_custom_id", fmt::format("custom_id {} is given before", quoted(line.custom_id, 60)),
            "custom_id"};
  return {};
}

}  // namespace

BatchFile read_batch_file(std::string_view content, const std::string& endpoint) {
  BatchFile file;
  std::set<std::string> ids;
  int64_t number = 0;
  const auto refuse = [&](const LineRefusal& why, const Json& line) {
    file.errors.push_back({{"code", why.code},
                           {"message", why.message},
                           {"param", why.param.empty() ? Json() : Json(why.param)},
                           {"line", line}});
  };
  while (!content.empty() && file.errors.size() < kMostErrors) {
    const size_t end = std::min(content.find('\n'), content.size());
    std::string_view text = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++number;
    if (trimmed(text).empty()) continue;
    if (file.lines.size() >= kMostBatchLines) {
      refuse({"too_many_tasks", fmt::format("a batch has at most {} requests", kMostBatchLines), ""}, number);
      break;
    }
    BatchLine line;
    const LineRefusal refusal = read_line(text, endpoint, ids, line);
    if (refusal.code.empty()) file.lines.push_back(std::move(line));
    else refuse(refusal, number);
  }
  if (file.lines.empty() && file.errors.empty()) refuse({"empty_file", "The input file has no requests.", ""}, Json());
  return file;
}

std::string answered_line(const std::string& custom_id, const std::string& request_id, const HttpResponse& response) {
  // The server's own answers are JSON.
  Json body = Json::parse(response.body, nullptr, false);
  if (body.is_discarded()) body = response.body;
  return compact(
             {{"id", new_identifier("batch_req_")},
              {"custom_id", custom_id},
              {"response", {{"status_code", response.status}, {"request_id", request_id}, {"body", std::move(body)}}},
              {"error", nullptr}}) +
         "\n";
}

std::string unanswered_line(const std::string& custom_id, const std::string& code, const std::string& message) {
  return compact({{"id", new_identifier("batch_req_")},
                  {"custom_id", custom_id},
                  {"response", nullptr},
                  {"error", {{"code", code}, {"message", message}}}}) +
         "\n";
}

std::set<std::string> written_lines(std::string& content) {
  content.resize(content.rfind('\n') == content.npos ? 0 : content.rfind('\n') + 1);
  std::set<std::string> ids;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = content.find('\n', begin);
    const Json line = Json::parse(std::string_view(content).substr(begin, end - begin), nullptr, false);
    if (line.is_object() && line.contains("custom_id") && line["custom_id"].is_string()) ids.insert(line["custom_id"]);
    begin = end + 1;
  }
  return ids;
}

}  // namespace transom::serve
