// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/page/page.h"

#include <openssl/evp.h>

#include <array>

#include "apps/serve/page/page_parts.h"
#include "base/text/base64.h"

namespace transom::serve {
namespace {

// 'sha256-...' of a script or style, as a policy names it (Content Security Policy Level 3, 6.7.2).
std::string source_of(const std::string& text) {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    fail(ErrorKind::kInternal, "SHA-256 is not available");
  const std::string base64 = to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
  return "'sha256-" + base64 + "'";
}

Page make_page() {
  const std::string style(kPageStyle),
      script = std::string(kPageScript).append(kPageMarkdown).append(kPageHistory).append(kPageChatScript);
  Page page;
  page.document =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Transom</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n"
      "<style>" +
      style + "</style>\n</head>\n<body>\n" + std::string(kPageMarkup) + "<script>" + script +
      "</script>\n</body>\n</html>\n";
  page.policy =
      "default-src 'none'; script-src " + source_of(script) + "; style-src " + source_of(style) +
      "; connect-src 'self'; img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'";
  return page;
}

// Without a key: it holds nothing of this server, and asks for the key itself.
void show_page(const std::shared_ptr<Call>& call) {
  const Page& page = page_of_server();
  HttpResponse response{.status = 200, .body = page.document, .content_type = "text/html; charset=utf-8"};
  response.headers = {{"Content-Security-Policy", page.policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  call->respond(std::move(response));
}

}  // namespace

const Page& page_of_server() {
  static const Page page = make_page();
  return page;
}

std::vector<Route> page_routes() {
  return {{"GET", "/", show_page, ErrorForm::kOpenAi, Route::kOpen | Route::kAtOnce}};
}

}  // namespace transom::serve
