// SPDX-License-Identifier: Apache-2.0
// Requests to the Hub, by libcurl. The token goes to the endpoint's own host and to no other, wherever redirects lead.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "files/hub/settings.h"

namespace transom {

struct HttpResponse {
  int status = 0;       // 0: none came
  std::string failure;  // why the answer is missing or incomplete, in curl's words; empty: it is whole
  std::map<std::string, std::string> headers;  // by names in small letters
  bool foreign = false;                        // it comes from another host than the endpoint's
  std::string body;                            // of get_text

  const std::string* header(const std::string& name) const;
  std::optional<uint64_t> number(const std::string& name) const;  // of a header; nothing where it is none
  // Worth another try: nothing came, it broke off, or the server is busy or in trouble.
  bool transient() const;
  std::string summary() const;  // "HTTP 503", or the failure
};

class HttpClient {
 public:
  explicit HttpClient(const HubSettings& settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Follows redirects until an answer carries X-Linked-Etag: what the Hub says of a file stands in the answer that
  // sends to the file's storage.
  HttpResponse head(const std::string& url);
  // A text of at most `limit` bytes.
  HttpResponse get_text(const std::string& url, size_t limit);
  // A file from byte `from` on. `sink` gets the body of an answer 200 or 206 in pieces, with its headers (those named
  // X-Linked-... and X-Repo-... of the answers before it included); what it throws comes out here.
  using Sink = std::function<void(const HttpResponse& response, std::string_view bytes)>;
  HttpResponse get_file(const std::string& url, uint64_t from, const Sink& sink);

 private:
  struct Request;
  HttpResponse follow(const std::string& url, Request& request);
  HttpResponse perform(const std::string& url, Request& request);
  const HubSettings& settings_;
  void* curl_;
};

}  // namespace transom
