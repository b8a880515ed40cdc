// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/multipart.h"

#include "apps/serve/api/api_error.h"
#include "apps/serve/http/message.h"

namespace transom::serve {
namespace {

constexpr size_t kMostBoundary = 70, kMostParts = 16, kMostHead = 4096;

void read_head(std::string_view head, FormPart& part) {
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string name = lower_case(trimmed(line.substr(0, colon)));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (name == "content-disposition") {
      part.name = header_parameter(value, "name");
      part.file_name = header_parameter(value, "filename");
    } else if (name == "content-type") {
      part.content_type = lower_case(value);
    }
  }
}

}  // namespace

std::vector<FormPart> parse_multipart(std::string_view body, std::string_view content_type) {
  if (!lower_case(content_type).starts_with("multipart/form-data"))
    throw ApiError(400, fmt::format("expected a body of the type multipart/form-data, found {}", quoted(content_type)));
  const std::string boundary = header_parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kMostBoundary)
    throw ApiError(400, fmt::format("multipart/form-data: expected a boundary of 1 to {} bytes", kMostBoundary));
  const std::string line = "\r\n--" + boundary;
  // What stands before the first boundary does not count.
  size_t at = 0;
  if (body.starts_with(std::string_view(line).substr(2))) at = line.size() - 2;
  else if (const size_t found = body.find(line); found != body.npos) at = found + line.size();
  else throw ApiError(400, "multipart/form-data: the body does not hold its boundary");
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    if (!body.substr(at).starts_with("\r\n")) throw ApiError(400, "multipart/form-data: a boundary without a line end");
    if (parts.size() == kMostParts)
      throw ApiError(400, fmt::format("multipart/form-data: expected at most {} parts", kMostParts));
    const size_t head = body.find("\r\n\r\n", at);
    if (head == body.npos || head - at > kMostHead) throw ApiError(400, "multipart/form-data: a part without a head");
    const size_t end = body.find(line, head + 2);
    if (end == body.npos) throw ApiError(400, "multipart/form-data: a part does not end");
    FormPart& part = parts.emplace_back();
    read_head(body.substr(at + 2, head - at), part);
    part.content = body.substr(std::min(head + 4, end), end - std::min(head + 4, end));
    at = end + line.size();
  }
  return parts;
}

}  // namespace transom::serve
