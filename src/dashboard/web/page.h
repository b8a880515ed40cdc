// SPDX-License-Identifier: Apache-2.0
// The page of the dashboard. It loads nothing from elsewhere.
#pragma once

#include <string_view>

namespace transom::dashboard {

extern const std::string_view kPageHtml, kPageStyle, kPageScript;

}  // namespace transom::dashboard
