// SPDX-License-Identifier: Apache-2.0
// The page of the dashboard. It loads nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace transom::dashboard {

// dashboard.css and dashboard.js, which cmake/TransomEmbed.cmake puts into the library with dashboard.html.
extern const std::string_view kPageStyle, kPageScript;

// The page with a state (view_message) in it, which it shows before anything else is asked for.
std::string page_html(std::string_view state);

}  // namespace transom::dashboard
