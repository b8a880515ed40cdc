// SPDX-License-Identifier: Apache-2.0
#include "files/hub/http.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>

#include "base/error.h"
#include "files/hub/curl_library.h"

namespace transom {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMostRedirects = 8;

struct CurlFree {
  void operator()(char* text) const { curl().free(text); }
  void operator()(CURLU* url) const { curl().url_cleanup(url); }
  void operator()(curl_slist* list) const { curl().slist_free_all(list); }
};

// "https://host:443"; empty for what is no address.
std::string origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, CurlFree> parsed(curl().url());
  if (!parsed || curl().url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
  std::string origin;
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
    char* text = nullptr;
    if (curl().url_get(parsed.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
    const std::unique_ptr<char, CurlFree> owner(text);
    origin += (origin.empty() ? "" : ":") + std::string(text);
  }
  std::transform(origin.begin(), origin.end(), origin.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return origin;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

// One request and what its callbacks work on.
struct HttpClient::Request {
  bool head = false;
  uint64_t from = 0;
  size_t limit = 0;                         // of a text
  const Sink* sink = nullptr;               // of a file
  std::map<std::string, std::string> kept;  // headers of the answers that redirected to this one
  HttpResponse response;
  std::exception_ptr thrown;
  bool begun = false;  // the body
  bool stalled = false;
  std::chrono::seconds patience{};
  curl_off_t arrived = 0;
  Clock::time_point last_arrival;
  CURL* handle = nullptr;

  static size_t on_header(char* data, size_t size, size_t count, void* self) {
    std::string_view line(data, size * count);
    auto& response = static_cast<Request*>(self)->response;
    if (line.starts_with("HTTP/")) {  // another answer begins (after 100, or a proxy's)
      response.headers.clear();
      return line.size();
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) return size * count;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    line.remove_prefix(colon + 1);
    const size_t begin = line.find_first_not_of(" \t\r\n");
    const size_t end = line.find_last_not_of(" \t\r\n");
    response.headers[name] = begin == line.npos ? "" : std::string(line.substr(begin, end - begin + 1));
    return size * count;
  }

  // Called about once a second. Curl's own limit of speed looks at an average and notices a stall seconds later.
  static int on_progress(void* pointer, curl_off_t, curl_off_t arrived, curl_off_t, curl_off_t) {
    Request& self = *static_cast<Request*>(pointer);
    if (arrived != self.arrived) {
      self.arrived = arrived;
      self.last_arrival = Clock::now();
    }
    self.stalled = Clock::now() - self.last_arrival > self.patience;
    return self.stalled ? 1 : 0;
  }

  void note_answer() {
    long status = 0;
    curl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    response.headers.insert(kept.begin(), kept.end());
  }

  static size_t on_body(char* data, size_t size, size_t count, void* pointer) {
    Request& self = *static_cast<Request*>(pointer);
    const std::string_view bytes(data, size * count);
    if (!self.begun) {
      self.begun = true;
      self.note_answer();
    }
    const int status = self.response.status;
    try {
      if (!self.sink) {
        if (self.response.body.size() + bytes.size() > self.limit) return 0;
        self.response.body += bytes;
      } else if (status == 200 || status == 206) {
        (*self.sink)(self.response, bytes);
      }
    } catch (...) {
      self.thrown = std::current_exception();
      return 0;
    }
    return bytes.size();
  }
};

const std::string* HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<uint64_t> HttpResponse::number(const std::string& name) const {
  const std::string* text = header(name);
  uint64_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

bool HttpResponse::transient() const {
  return !failure.empty() || status == 0 || status == 408 || status == 429 || status >= 500;
}

std::string HttpResponse::summary() const { return failure.empty() ? fmt::format("HTTP {}", status) : failure; }

HttpClient::HttpClient(const HubSettings& settings) : settings_(settings) {
  curl_ = curl().easy_init();
  if (!curl_) fail(ErrorKind::kInternal, "libcurl cannot be started");
}

HttpClient::~HttpClient() { curl().easy_cleanup(curl_); }

HttpResponse HttpClient::perform(const std::string& url, Request& request) {
  CURL* const handle = curl_;
  curl().easy_reset(handle);  // connections stay open
  const std::string origin = origin_of(url);
  const bool own = !origin.empty() && origin == origin_of(settings_.endpoint);

  std::unique_ptr<curl_slist, CurlFree> headers;
  const auto add = [&](const std::string& line) {
    curl_slist* longer = curl().slist_append(headers.get(), line.c_str());
    if (!longer) throw std::bad_alloc();
    headers.release();
    headers.reset(longer);
  };
  add("Accept-Encoding: identity");  // the size and hash are those of the plain file
  if (own && !settings_.token.empty()) add("Authorization: Bearer " + settings_.token);
  if (request.from > 0) add(fmt::format("Range: bytes={}-", request.from));

  std::string failure(CURL_ERROR_SIZE, '\0');
  request.response = {};
  request.response.foreign = !own;
  request.begun = request.stalled = false;
  request.patience = settings_.download_timeout;
  request.arrived = 0;
  request.last_arrival = Clock::now();
  request.handle = handle;
  curl().easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl().easy_setopt(handle, CURLOPT_PROTOCOLS_STR, settings_.endpoint.starts_with("https:") ? "https" : "http,https");
  curl().easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl().easy_setopt(handle, CURLOPT_USERAGENT, "transom/0.1");
  curl().easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl().easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  curl().easy_setopt(handle, CURLOPT_ERRORBUFFER, failure.data());
  curl().easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Request::on_header);
  curl().easy_setopt(handle, CURLOPT_HEADERDATA, &request);
  curl().easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Request::on_body);
  curl().easy_setopt(handle, CURLOPT_WRITEDATA, &request);
  curl().easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.metadata_timeout.count()));
  if (request.head) curl().easy_setopt(handle, CURLOPT_NOBODY, 1L);
  if (request.sink) {
    curl().easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl().easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Request::on_progress);
    curl().easy_setopt(handle, CURLOPT_XFERINFODATA, &request);
  } else {
    curl().easy_setopt(handle, CURLOPT_TIMEOUT, static_cast<long>(settings_.metadata_timeout.count()));
  }
  const CURLcode outcome = curl().easy_perform(handle);
  if (request.thrown) std::rethrow_exception(request.thrown);
  request.note_answer();
  if (outcome != CURLE_OK) {
    failure.resize(failure.find('\0'));
    if (request.stalled) request.response.failure = fmt::format("no byte came for {} s", request.patience.count());
    else request.response.failure = failure.empty() ? curl().easy_strerror(outcome) : failure;
  }
  return request.response;
}

HttpResponse HttpClient::follow(const std::string& url, Request& request) {
  std::string target = url;
  for (int i = 0; i < kMostRedirects; ++i) {
    const HttpResponse response = perform(target, request);
    if (!response.failure.empty() || !is_redirect(response.status) || !response.header("location")) return response;
    if (request.head && response.header("x-linked-etag")) return response;
    for (const auto& [name, value] : response.headers)
      if (name.starts_with("x-linked-") || name.starts_with("x-repo-")) request.kept.emplace(name, value);
    char* next = nullptr;  // absolute; belongs to the handle
    curl().easy_getinfo(static_cast<CURL*>(curl_), CURLINFO_REDIRECT_URL, &next);
    if (!next) return response;
    target = next;
  }
  HttpResponse response;
  response.failure = fmt::format("more than {} redirects", kMostRedirects);
  return response;
}

HttpResponse HttpClient::head(const std::string& url) {
  Request request;
  request.head = true;
  return follow(url, request);
}

HttpResponse HttpClient::get_text(const std::string& url, size_t limit) {
  Request request;
  request.limit = limit;
  return follow(url, request);
}

HttpResponse HttpClient::get_file(const std::string& url, uint64_t from, const Sink& sink) {
  Request request;
  request.from = from;
  request.sink = &sink;
  return follow(url, request);
}

}  // namespace transom
