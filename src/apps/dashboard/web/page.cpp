// SPDX-License-Identifier: Apache-2.0
#include "apps/dashboard/web/page.h"

namespace transom::dashboard {

extern const std::string_view kPageHtml;  // dashboard.html

std::string page_html(std::string_view state) {
  constexpr std::string_view kPlace = "@STATE@";
  const size_t at = kPageHtml.find(kPlace);
  std::string html(kPageHtml.substr(0, at));
  // Nothing in the state ends the element that it stands in.
  for (const char c : state) {
    if (c == '<') html += "\\u003c";
    else html += c;
  }
  return html += kPageHtml.substr(at + kPlace.size());
}

}  // namespace transom::dashboard
