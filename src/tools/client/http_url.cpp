// SPDX-License-Identifier: Apache-2.0
#include "tools/client/http_url.h"

#include <algorithm>

#include "base/error.h"

namespace transom::client {

std::string HttpUrl::authority() const {
  std::string text = host.find(':') != host.npos ? "[" + host + "]" : host;
  if (port != (secure ? "443" : "80")) text += ":" + port;
  return text;
}

std::string HttpUrl::text() const { return (secure ? "https://" : "http://") + authority() + path; }

HttpUrl parse_http_url(std::string_view text, std::string_view where) {
  const auto refuse = [&](const char* why) {
    fail(ErrorKind::kUsage, "{}: expected a URL such as http://localhost:8000, found {}: {}", where,
         quoted(std::string(text)), why);
  };
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), printable)) refuse("it is empty or holds spaces");
  HttpUrl url;
  std::string_view rest = text;
  if (const size_t scheme = rest.find("://"); scheme != rest.npos) {
    if (rest.substr(0, scheme) == "https") url.secure = true;
    else if (rest.substr(0, scheme) != "http") refuse("its scheme is neither http nor https");
    rest.remove_prefix(scheme + 3);
  }
  if (rest.find_first_of("?#@") != rest.npos) refuse("it has a user, a query or a fragment");
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view place = rest.substr(0, slash);
  url.path = std::string(rest.substr(slash));
  while (url.path.ends_with('/')) url.path.pop_back();
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == place.npos) refuse("the bracket of its address is not closed");
    url.host = std::string(place.substr(1, end - 1));
    port = place.substr(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    url.host = std::string(place.substr(0, colon));
    port = place.substr(colon);
  }
  if (url.host.empty()) refuse("its host is missing");
  if (port.empty()) {
    url.port = url.secure ? "443" : "80";
    return url;
  }
  port.remove_prefix(1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  if (!digits || std::stoi(std::string(port)) > 65535) refuse("its port is no number from 0 to 65535");
  url.port = std::string(port);
  return url;
}

}  // namespace transom::client
