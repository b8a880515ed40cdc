// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "base/text/percent.h"

namespace transom::serve {

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return &value;
  return nullptr;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Entity";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

bool read_target(HttpRequest& request) {
  std::string_view target = request.target;
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("//") + 2);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  const size_t question = target.find('?');
  if (question != target.npos) request.query = std::string(target.substr(question + 1));
  std::optional<std::string> path = percent_decoded(target.substr(0, question));
  if (!path || path->find('\0') != path->npos) return false;
  request.path = *std::move(path);
  return true;
}

std::string request_id(const std::string* given) {
  const bool usable = given && !given->empty() && given->size() <= 128 &&
                      std::all_of(given->begin(), given->end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (usable) return *given;
  static std::atomic<uint64_t> count{std::random_device{}()};
  static const uint32_t start = std::random_device{}();
  return fmt::format("req-{:08x}{:012x}", start, count.fetch_add(0x9e3779b97f4bULL) & 0xffffffffffffULL);
}

std::string trace_id(const std::string* traceparent) {
  // 00-<trace>-<span>-<flags>; later versions may have more behind.
  constexpr size_t kTrace = 3, kSpan = 36, kFlags = 53, kEnd = 55;
  if (!traceparent || traceparent->size() < kEnd) return {};
  const std::string_view text = *traceparent;
  const auto digits = [&](size_t begin, size_t end) {
    const std::string_view part = text.substr(begin, end - begin);
    return part.find_first_not_of("0123456789abcdef") == part.npos && part.find_first_not_of('0') != part.npos;
  };
  const auto is_hex = [&](size_t at) { return hex_digit(text[at]) >= 0 && hex_digit(text[at + 1]) >= 0; };
  const bool form = text[2] == '-' && text[kSpan - 1] == '-' && text[kFlags - 1] == '-' && is_hex(0) &&
                    is_hex(kFlags) && !text.starts_with("ff") &&
                    (text.size() == kEnd || (text[kEnd] == '-' && !text.starts_with("00")));
  const bool known = form && digits(kTrace, kSpan - 1) && digits(kSpan, kFlags - 1);
  return known ? std::string(text.substr(kTrace, 32)) : std::string();
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::string_view> query_parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view field = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (field.size() > name.size() && field.starts_with(name) && field[name.size()] == '=')
      return field.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::string header_parameter(std::string_view header, std::string_view name) {
  size_t at = header.find(';');
  while (at != header.npos) {
    header.remove_prefix(at + 1);
    const size_t equals = header.find('=');
    if (equals == header.npos) return {};
    const bool found = lower_case(trimmed(header.substr(0, equals))) == name;
    header.remove_prefix(equals + 1);
    header = header.substr(std::min(header.find_first_not_of(" \t"), header.size()));
    std::string value;
    if (!header.empty() && header[0] == '"') {
      size_t i = 1;
      for (; i < header.size() && header[i] != '"'; ++i) {
        if (header[i] == '\\' && i + 1 < header.size()) ++i;
        value += header[i];
      }
      header.remove_prefix(std::min(i + 1, header.size()));
    } else {
      value = trimmed(header.substr(0, header.find(';')));
    }
    if (found) return value;
    at = header.find(';');
  }
  return {};
}

std::optional<HeadRefusal> refused_head(const HttpRequest& request, int64_t most_headers) {
  if (static_cast<int64_t>(request.headers.size()) > most_headers)
    return HeadRefusal{431, fmt::format("the request has more than {} headers", most_headers)};
  size_t hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name == "content-encoding" && value != "identity")
      return HeadRefusal{415, "Content-Encoding is not supported: send the body as it is"};
    // Where two servers on the way read these differently, one takes as a request what is the body of another's.
    if (name == "transfer-encoding" && lower_case(value) != "chunked")
      return HeadRefusal{501, "Transfer-Encoding: expected chunked alone"};
    if (name == "host" && ++hosts > 1) return HeadRefusal{400, "the request has more than one Host header"};
  }
  return std::nullopt;
}

}  // namespace transom::serve
